"""Top consumers as tables of the page."""

from typing import Final

from tgpu.drawing.page import table
from tgpu.report.figures import Figures
from tgpu.report.plan import user_name
from tgpu.report.prices import Prices

_MOST_USERS: Final = 40


def users_table(numbers: Figures) -> str:
    priced = numbers.cost is not None
    head = ["user", "tenant", "jobs", "GPU-hours", "of all", *(["cost"] if priced else [])]
    rows = [
        [
            user_name(each.user),
            str(each.tenant_id),
            f"{each.jobs:,}",
            amount(each.gpu_hours),
            f"{each.percent:.1f} %",
            *([money(numbers, each.cost or 0)] if priced else []),
        ]
        for each in numbers.users[:_MOST_USERS]
    ]
    more = len(numbers.users) - _MOST_USERS
    return table(head, rows, 2) + (f"<p>And {more:,} more.</p>" if more > 0 else "")


def jobs_table(numbers: Figures) -> str:
    """An array or sweep is one row."""
    priced = numbers.cost is not None
    head = ["job", "name", "user", "tenant", "jobs", "GPU-hours", *(["cost"] if priced else [])]
    rows = [
        [
            each.job_id,
            each.name,
            user_name(each.user),
            str(each.tenant_id),
            f"{each.jobs:,}",
            amount(each.gpu_hours),
            *([money(numbers, each.cost or 0)] if priced else []),
        ]
        for each in numbers.top_jobs
    ]
    return table(head, rows, 4)


def money(numbers: Figures, cost: float) -> str:
    return Prices(currency=numbers.currency).text(cost)


def amount(hours: float) -> str:
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:,.2f}"
