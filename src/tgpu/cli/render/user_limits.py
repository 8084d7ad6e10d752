"""Limits and use of the users of a tenant, as a table."""

from collections.abc import Sequence
from typing import Final

from tgpu.cli.render.grid import Cell, Column, Grid, clean
from tgpu.cli.render.words import number_text
from tgpu.wire.user_limits_v1 import UserLimitsModel, UserUseModel

_USERS: Final = (
    Column("USER", least=8),
    Column("GPUS", right=True),
    Column("JOBS", right=True),
    Column("GPU-HOURS TODAY", right=True),
    Column("", leave_out=1),
)


def user_grid(users: Sequence[UserUseModel]) -> Grid:
    return Grid(_USERS, tuple(_row(user) for user in users))


def each_line(limits: UserLimitsModel) -> str:
    """each user: 4 GPUs and 10 jobs at once, 24 GPU-hours a day"""
    return f"each user: {limits_text(limits) or 'no limits'}"


def limits_text(limits: UserLimitsModel | UserUseModel) -> str:
    """4 GPUs and 10 jobs at once, 24 GPU-hours a day"""
    at_once = []
    if limits.max_gpus is not None:
        at_once.append(_counted(limits.max_gpus, "GPU"))
    if limits.max_concurrent_jobs is not None:
        at_once.append(_counted(limits.max_concurrent_jobs, "job"))
    parts = [f"{' and '.join(at_once)} at once"] if at_once else []
    if limits.max_gpu_hours_per_day is not None:
        parts.append(f"{_counted(limits.max_gpu_hours_per_day, 'GPU-hour')} a day")
    return ", ".join(parts)


def _counted(number: float, word: str) -> str:
    return f"{number_text(number)} {word}{'' if number == 1 else 's'}"


def _row(user: UserUseModel) -> tuple[Cell, ...]:
    return (
        Cell(clean(user.user)),
        _of(number_text(user.current_gpus), user.current_gpus, user.max_gpus),
        _of(str(user.current_jobs), user.current_jobs, user.max_concurrent_jobs),
        Cell("")
        if user.gpu_hours_today is None
        else _of(f"{user.gpu_hours_today:.2f}", user.gpu_hours_today, user.max_gpu_hours_per_day),
        Cell("own limits" if user.by_name else ""),
    )


def _of(used: str, amount: float, limit: float | None) -> Cell:
    if limit is None:
        return Cell(used)
    return Cell(f"{used} of {number_text(limit)}", "yellow" if amount >= limit else "")
