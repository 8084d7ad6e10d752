"""`tgpu doctor`: problems on this machine, and the commands that fix them."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples
from tgpu.cli.serving.command import Config

EPILOG = examples(
    "tgpu doctor",
    "tgpu doctor --fix",
    "tgpu doctor --config /etc/tgpu.yaml",
    "tgpu doctor --api-url https://gpu.example.org:8080",
    "tgpu doctor --json | jq '.checks[] | select(.level != \"ok\")'",
)


def doctor(
    config: Config = None,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix", help="Remove supervisors and sockets left over from a removed data directory."
        ),
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Check the installation and say how to fix what is wrong.

    With --api-url or TGPU_URL it checks that scheduler: version, health, GPUs, clock, disk,
    certificate, and your identity there. Otherwise it checks this machine and your own scheduler,
    or with --config the scheduler of that settings file. The exit code is 1 if a check fails;
    warnings do not count.
    """
    from tgpu.cli.doctor.checks import examine
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.findings import FindingLevel
    from tgpu.cli.output import show_json, show_lines
    from tgpu.cli.render.checks import check_lines

    checks = examine(api_url, config, fix=fix)
    if as_json:
        show_json({"checks": [check.as_json() for check in checks]})
    else:
        show_lines(check_lines(checks))
    failed = any(check.level is FindingLevel.FAIL for check in checks)
    return ExitCode.FAILURE if failed else ExitCode.OK
