"""`tgpu quota user`: limits of single users of a tenant."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu quota user vision",
    "tgpu quota user vision --gpus 4 --jobs 10 --hours-a-day 24",
    "tgpu quota user vision ada --gpus 8",
    "tgpu quota user vision ada --default",
)


def user_quota(
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")],
    user: Annotated[
        str | None, typer.Argument(metavar="[USER]", help="User name. Default: every user.")
    ] = None,
    *,
    gpus: Annotated[
        str | None, typer.Option(metavar="N", help="GPUs at once; none for no limit.")
    ] = None,
    jobs: Annotated[
        str | None, typer.Option(metavar="N", help="Jobs running at once; none for no limit.")
    ] = None,
    hours_a_day: Annotated[
        str | None, typer.Option(metavar="N", help="GPU-hours a day (UTC); none for no limit.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Remove USER's own limits.")] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Set or show limits per user of a tenant, for all or by name.

    Limits by name replace those for all users.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.user_limits import each_line, user_grid
    from tgpu.wire.user_limits_v1 import UserLimitsPatch

    body = _body(user, _given(gpus, jobs, hours_a_day), default=default)
    with connected(api_url) as client:
        if body:
            found = client.change_users(tenant, UserLimitsPatch.model_validate(body))
        else:
            found = client.get_users(tenant)
    if as_json:
        show_json(found)
        return
    shown = [each for each in found.users if user in (None, each.user)]
    if user is None:
        say(each_line(found.user_limits))
    if shown:
        show_lines(lay_out(user_grid(shown), width()))


def _given(gpus: str | None, jobs: str | None, hours: str | None) -> dict[str, object]:
    from tgpu.cli.tenants import limits

    return limits.given_limits(
        {
            ("max_gpus", "--gpus"): (gpus, limits.parse_gpus),
            ("max_concurrent_jobs", "--jobs"): (jobs, limits.parse_count),
            ("max_gpu_hours_per_day", "--hours-a-day"): (hours, limits.parse_number),
        }
    )


def _body(user: str | None, given: dict[str, object], *, default: bool) -> dict[str, object]:
    from tgpu.cli.failures import bad_input

    if default and (given or user is None):
        raise bad_input("--default removes a user's own limits: name the user, and give no limits")
    if default:
        return {"users": {user: None}}
    if not given:
        return {}
    return {"user_limits": given} if user is None else {"users": {user: given}}
