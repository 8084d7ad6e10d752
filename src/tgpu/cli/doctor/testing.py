"""`tgpu test`: does this installation work?"""

from typing import Annotated

import typer

from tgpu.cli.options import Json, examples

EPILOG = examples("tgpu test --quick", "tgpu test", "tgpu test --quick --json")


def try_out(
    quick: Annotated[
        bool, typer.Option("--quick", help="Skip the run of 300 jobs; takes some seconds.")
    ] = False,
    as_json: Json = False,
) -> int:
    """Test this installation in a scratch directory with simulated GPUs.

    Starts its own service, runs and cancels jobs, and restarts it. Your own scheduler and its jobs
    are not touched. The exit code is 1 if something fails.
    """
    import tempfile
    from pathlib import Path

    from tgpu.cli.doctor.self_test import run_self_test
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.findings import FindingLevel
    from tgpu.cli.output import say, show_json, show_lines
    from tgpu.cli.render.checks import check_lines

    checks = []
    with tempfile.TemporaryDirectory(prefix="tgpu-test-", ignore_cleanup_errors=True) as scratch:
        for check in run_self_test(Path(scratch), quick=quick):
            checks.append(check)
            if not as_json:
                show_lines(check_lines([check], least=len("failure")))
    failed = any(check.level is FindingLevel.FAIL for check in checks)
    if as_json:
        show_json({"passed": not failed, "checks": [check.as_json() for check in checks]})
    else:
        say("something is wrong" if failed else "all is well")
    return ExitCode.FAILURE if failed else ExitCode.OK
