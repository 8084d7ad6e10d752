"""Answers about the fair share of `/api/v1`."""

from pydantic import BaseModel, ConfigDict

from tgpu.wire.user_limits_v1 import UserUseModel


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class ShareModel(_Model):
    """Parts are of one: 0.25 is a quarter."""

    weight: float
    entitled: float
    used: float
    used_gpu_hours: float  # of late: they count less the longer ago they were
    current_gpus: float
    standing: float | None  # used for each part entitled; the lowest is served first
    is_even: bool  # used and entitled are the same, within half a per cent
    even_at: str | None  # if everybody keeps the GPUs they have; null: never at this rate


class UserShareModel(ShareModel):
    """A user's part of the tenant's share. All users have the same weight."""

    user: str
    limits: UserUseModel | None = None  # what they may have, where they have GPUs or limits


class TenantShareModel(ShareModel):
    tenant_id: str
    users: list[UserShareModel]


class ShareList(_Model):
    policy: str  # of the service: only `fairshare` decides by this
    half_life_hours: float  # 0: only what is held now counts
    at: str  # when this was so
    tenants: list[TenantShareModel]
