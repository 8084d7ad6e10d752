"""Profiles of Hypothesis: bounded and repeatable by default, wider where somebody looks for bugs.

`pytest --hypothesis-profile=search` draws new examples in each run and ten times as many; `fuzz`
does the same for tests/fuzz, where an example takes longer.
`pytest --no-skips` fails a run that skipped a test: a machine that lacks something proves nothing.
"""

import signal

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

pytest_plugins = ("tests.servers.fixtures",)

_SLOW_IS_FINE = (HealthCheck.too_slow, HealthCheck.data_too_large)

settings.register_profile(
    "ci", deadline=None, derandomize=True, max_examples=50, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "search", deadline=None, max_examples=500, suppress_health_check=_SLOW_IS_FINE
)
settings.register_profile(
    "fuzz", deadline=None, max_examples=400, suppress_health_check=_SLOW_IS_FINE, print_blob=True
)
settings.load_profile("ci")

# Hypothesis also draws numbers that stand in the modules which happen to be loaded: what a test is
# tried with would depend on which tests ran before it in the same process.
providers._get_local_constants = lambda: providers._local_constants  # no setting turns it off

# A shell that starts a run in the background has it ignore interrupts, and so would every process
# that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="fail when a test was skipped")


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config
) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped and config.getoption("--no-skips"):
        terminalreporter.write_line(f"--no-skips: {len(skipped)} tests were skipped", red=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or not session.config.getoption("--no-skips"):
        return
    if reporter.stats.get("skipped") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
