"""Profiles of Hypothesis: bounded and repeatable by default, wider where somebody looks for bugs.

`pytest --hypothesis-profile=search` draws new examples in each run and ten times as many.
"""

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.servers.fixtures",)

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "search", deadline=None, max_examples=500, suppress_health_check=_SLOW_IS_FINE
)
settings.load_profile("ci")
