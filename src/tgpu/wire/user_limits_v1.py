"""Limits and use of one user of a tenant."""

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field

from tgpu.wire.bounds import WIDEST, BoundedModel, RequestModel, at_most

Amount = Annotated[int, Field(ge=0, le=WIDEST)]
Gpus = Annotated[float, Field(ge=0, le=100_000)]
HoursPerDay = Annotated[float, Field(gt=0, le=1_000_000)]
UserWord = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")]
_MOST_USERS = 10_000


class UserLimitsModel(BoundedModel):
    """A missing or null limit means no limit."""

    max_gpus: Gpus | None = None
    max_concurrent_jobs: Amount | None = None
    max_gpu_hours_per_day: HoursPerDay | None = None  # days begin at midnight UTC


# By name; their limits take the place of all that each user has.
UsersByName = Annotated[
    dict[UserWord, UserLimitsModel],
    Field(max_length=_MOST_USERS),
    FailFast(),
    BeforeValidator(at_most(_MOST_USERS)),
]


class UserLimitsPatch(RequestModel):
    """Missing fields stay, null removes a limit. A user set to null gets the limits for all
    users."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "user_limits": {"max_gpus": 4, "max_gpu_hours_per_day": 24},
                    "users": {"ada": {"max_gpus": 8}, "bob": None},
                }
            ]
        }
    )

    user_limits: UserLimitsModel = UserLimitsModel()
    users: Annotated[
        dict[UserWord, UserLimitsModel | None],
        Field(max_length=1000),
        FailFast(),
        BeforeValidator(at_most(1000)),
    ] = {}


class UserUseModel(BaseModel):
    """Limits and use of one user of a tenant."""

    model_config = ConfigDict(extra="forbid")

    user: str
    max_gpus: float | None = None
    max_concurrent_jobs: int | None = None
    max_gpu_hours_per_day: float | None = None
    by_name: bool = False  # these limits are theirs alone
    current_gpus: float = 0.0
    current_jobs: int = 0
    gpu_hours_today: float | None = None  # null: nobody counts them, as nothing limits them


class UserUseList(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tenant_id: str
    user_limits: UserLimitsModel  # of each user who has none by name
    users: list[UserUseModel]
