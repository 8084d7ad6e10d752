"""The user's identity as the scheduler sees it, as lines."""

from typing import TYPE_CHECKING

from tgpu.cli.render.grid import clean

if TYPE_CHECKING:
    from tgpu.cli.own_config import Chosen
    from tgpu.wire.keys_v1 import WhoAmI


def whoami_lines(found: "WhoAmI", chosen: "Chosen | None") -> list[str]:
    theirs = found.tenants
    tenants = "all tenants" if theirs is None else ", ".join(theirs) or "no tenant"
    lines = [f"{clean(found.name)}: {found.role} of {clean(tenants)}"]
    if found.problem:  # it says why, too
        return [*lines, clean(found.problem)]
    if found.how:
        lines.append(f"known by: {clean(found.how)}")
    if chosen is not None and theirs is not None and chosen.value not in theirs:
        which = f"{chosen.value} (from {chosen.source}), which is not one of yours"
    elif chosen is not None:
        which = f"{chosen.value} (from {chosen.source})"
    elif found.tenant is not None:
        which = found.tenant
    else:
        which = "the one you give: --tenant, TGPU_TENANT, or tgpu config set tenant NAME"
    return [*lines, f"your tenant: {clean(which)}"]
