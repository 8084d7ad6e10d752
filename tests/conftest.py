"""Profiles of Hypothesis: bounded and repeatable by default, wider where somebody looks for bugs.

`pytest --hypothesis-profile=search` draws new examples in each run and ten times as many.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "search", deadline=None, max_examples=500, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("ci")

# Tests that start, kill and time real processes: one worker takes them all, one after the other,
# so that they never compete with each other for the machine's few cores.
_WITH_PROCESSES = ("integration", "acceptance")


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    root = Path(__file__).parent
    for item in items:
        if item.path.relative_to(root).parts[0] in _WITH_PROCESSES:
            item.add_marker(pytest.mark.xdist_group("processes"))
