"""The fair share as a table."""

from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.user_limits import limits_text
from tgpu.cli.render.words import number_text
from tgpu.text.durations import duration_text
from tgpu.text.instants import iso_millis
from tgpu.wire.share_v1 import ShareList, ShareModel

_TENANT: Final = Column("TENANT", least=8)
_USER: Final = Column("USER", least=8)
_LIMITS: Final = Column("MAY HAVE", least=12)
_AMOUNTS: Final = (
    Column("WEIGHT", right=True, leave_out=3),
    Column("ENTITLED", right=True),
    Column("USED", right=True),
    Column("GPU-HOURS", right=True, leave_out=1),
    Column("GPUS NOW", right=True, leave_out=2),
    Column("STANDING", right=True, leave_out=4),
    Column("EVEN", least=8),
)


def share_grid(found: ShareList, *, with_users: bool) -> Grid:
    """With users in the order in which they are served, the lowest standing first."""
    now_ms = iso_millis(found.at)
    if not with_users:
        tenants = [(Cell(clean(t.tenant_id)), *_amounts(t, now_ms)) for t in found.tenants]
        return Grid((_TENANT, *_AMOUNTS), tuple(tenants))
    rows = []
    for tenant in found.tenants:
        rows.append((Cell(clean(tenant.tenant_id)), Cell(""), *_amounts(tenant, now_ms), Cell("")))
        users = sorted(tenant.users, key=lambda user: (user.standing or 0, user.user))
        rows += [
            (
                Cell(""),
                Cell(clean(user.user) or "(nobody)"),
                *_amounts(user, now_ms),
                Cell("" if user.limits is None else limits_text(user.limits)),
            )
            for user in users
        ]
    if not any(row[-1].text for row in rows):
        return Grid((_TENANT, _USER, *_AMOUNTS), tuple(row[:-1] for row in rows))
    return Grid((_TENANT, _USER, *_AMOUNTS, _LIMITS), tuple(rows))


def share_line(found: ShareList) -> str:
    hours = duration_text(found.half_life_hours * 3600)
    how = (
        f"GPU time of {hours} ago counts half"
        if found.half_life_hours
        else "only GPUs held now count"
    )
    if found.policy in ("fairshare", "backfill"):
        return how
    return f"{how}; the policy is {found.policy}, which does not use it"


def _amounts(share: ShareModel, now_ms: int) -> tuple[Cell, ...]:
    over = share.standing is not None and share.standing > 1
    return (
        Cell(number_text(share.weight)),
        Cell(_percent(share.entitled)),
        Cell(_percent(share.used), "" if share.is_even else "yellow" if over else "green"),
        Cell(f"{share.used_gpu_hours:.2f}"),
        Cell(number_text(share.current_gpus)),
        Cell("" if share.standing is None else f"{share.standing:.2f}"),
        Cell(_even(share, now_ms)),
    )


def _percent(part: float) -> str:
    return f"{100 * part:.1f}%"


def _even(share: ShareModel, now_ms: int) -> str:
    if share.is_even:
        return "now"
    if share.even_at is None:
        return "not at this rate"
    return f"in {duration_text(max(0, iso_millis(share.even_at) - now_ms) / 1000)}"
