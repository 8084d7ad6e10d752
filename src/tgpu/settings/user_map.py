"""Which tenants the users of this machine belong to: the rules of `auth.map`."""

from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from tgpu.settings.fields import Section
from tgpu.wire.keys_v1 import RoleName

# Whoever these run things for, they see all tenants unless some are named.
_OF_ALL: Final = ("admin", "operator")

# As the system's own names, with * and ? in them; brackets mean nothing, so they are refused.
Pattern = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s:/,\[\]]+$")]
TenantName = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[^\s/]+$")]


class MapRuleSettings(Section):
    """One rule: whom it is about (one of user, group, default), and what it gives them."""

    user: Pattern | None = Field(
        default=None, description="A user of this machine by name; * and ? make it a pattern."
    )
    group: Pattern | None = Field(
        default=None,
        description="Members of this group, supplementary or primary; * and ? make it a pattern.",
    )
    default: bool = Field(
        default=False, description="With true: every user that no other rule matches."
    )
    tenants: tuple[TenantName, ...] = Field(
        default=(),
        description="Their tenants; * for all. An admin or operator without tenants has all.",
    )
    role: RoleName = Field(default="user", description="Their role in these tenants.")

    @model_validator(mode="after")
    def _is_about_somebody(self) -> Self:
        said = [self.user is not None, self.group is not None, self.default]
        if said.count(True) != 1:
            raise ValueError(
                "must have one of user, group and default: true, for example group: vision-team"
            )
        if not self.tenants and self.role not in _OF_ALL:
            raise ValueError("must name tenants, for example tenants: [vision]")
        return self
