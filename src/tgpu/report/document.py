"""The numbers of a report for programs."""

from dataclasses import asdict
from datetime import UTC, datetime

from tgpu.report.figures import Figures


def document(numbers: Figures) -> dict[str, object]:
    found: dict[str, object] = asdict(numbers)
    for name in ("since", "until"):
        found[name] = datetime.fromtimestamp(getattr(numbers, name) / 1000, UTC).isoformat()
    found["failures"] = dict(numbers.failures)
    for name in ("tenants", "users", "top_jobs"):
        found[name] = [asdict(each) for each in getattr(numbers, name)]
    return found
