"""`tgpu doctor`: what is wrong on this machine, and the command that mends it."""

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples("tgpu doctor", "tgpu doctor --json | jq '.checks[] | select(.level != \"ok\")'")


def doctor(as_json: Json = False, api_url: ApiUrl = None) -> int:
    """Look for what is wrong on this machine, and say how to mend it.

    The exit code is 1 if something fails; warnings do not count.
    """
    from tgpu.cli.checks import examine
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.findings import Level
    from tgpu.cli.output import show_json, show_lines
    from tgpu.cli.render.checks import check_lines

    checks = examine(api_url)
    if as_json:
        show_json({"checks": [check.as_json() for check in checks]})
    else:
        show_lines(check_lines(checks))
    failed = any(check.level is Level.FAIL for check in checks)
    return ExitCode.FAILURE if failed else ExitCode.OK
