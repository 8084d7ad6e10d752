"""The numbers of a report for programs."""

from dataclasses import asdict

from tgpu.report.figures import Figures
from tgpu.text.instants import iso_text


def document(numbers: Figures) -> dict[str, object]:
    found: dict[str, object] = asdict(numbers)
    for name in ("since", "until"):
        found[name] = iso_text(getattr(numbers, name))
    found["failures"] = dict(numbers.failures)
    for name in ("tenants", "users", "top_jobs"):
        found[name] = [asdict(each) for each in getattr(numbers, name)]
    return found
