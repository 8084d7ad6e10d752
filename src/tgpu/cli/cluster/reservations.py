"""Commands about reservations: reserve, reservations, unreserve. Times are of this machine."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from tgpu.cli import environment
from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.cli.failures import Failure
    from tgpu.client.errors import ClientError
    from tgpu.wire.reservations_v1 import ReservationModel

RESERVE_EPILOG = examples(
    "tgpu reserve --gpus 4 --at 14:00 --for 2h",
    'tgpu reserve --gpus 8 --type H100 --at "tomorrow 9:00" --for 8h --tenant vision',
    "tgpu reserve --gpus 1 --at +30m --for 1h --unused 5m",
    "tgpu submit --reservation r-1 --gpus 4 -- python train.py",
)
LIST_EPILOG = examples(
    "tgpu reservations", "tgpu reservations --tenant vision --json | jq '.reservations[].id'"
)
UNRESERVE_EPILOG = examples("tgpu unreserve r-1")


# What the API calls a field, and what is typed to fill it.
_OPTIONS: Final = {
    "id": "--id",
    "tenant_id": "--tenant",
    "gpus": "--gpus",
    "minutes": "--for",
    "starts_at": "--at",
    "gpu_type": "--type",
    "node": "--node",
    "unused_minutes": "--unused",
}


def reserve(
    *,
    gpus: Annotated[
        int,
        typer.Option(
            "--gpus", "-g", metavar="N", min=1, help="Number of whole GPUs on one machine."
        ),
    ],
    length: Annotated[str, typer.Option("--for", metavar="SPAN", help="Duration: 45m, 2h, 1d12h.")],
    at: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help='Start: 14:00 (the next one), "tomorrow 9:00", "2030-01-31 14:00", +2h.',
        ),
    ] = "now",
    gpu_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="GPU type, e.g. A100.")
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NODE", help="On this machine.")] = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="ID", help="Tenant whose jobs may use it.")
    ] = None,
    unused: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Cancel it when it stays unused for this long after its start; never: keep it.",
        ),
    ] = None,
    reservation_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Your own id.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Reserve GPUs for a time.

    Jobs use it with `tgpu submit --reservation ID`. Until it begins, jobs that end in time may run
    on the GPUs.
    """
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.cli.options import read_option
    from tgpu.cli.output import show_json
    from tgpu.client.errors import ClientError
    from tgpu.text.durations import parse_duration
    from tgpu.wire.reservations_v1 import ReservationCreate

    chosen = own_config.chosen("tenant", tenant)
    fields: dict[str, object] = {
        "id": reservation_id,
        "tenant_id": None if chosen is None else chosen.value,
        "user": environment.user_name(),
        "gpus": gpus,
        "minutes": read_option("--for", parse_duration, length) / 60,
        "starts_at": read_option("--at", _starts_at, at),
        "gpu_type": gpu_type,
        "node": node,
    }
    if unused is not None:
        fields["unused_minutes"] = read_option("--unused", _unused_minutes, unused)
    given = {name: value for name, value in fields.items() if value is not None}
    with connected(api_url) as client:
        try:
            made = client.reserve(ReservationCreate.model_validate(given))
        except ClientError as error:
            raise _refused(error) from error
    if as_json:
        show_json(made)
    else:
        _show_made(made)


def reservations(
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Only this tenant's.")] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show current and future reservations, the next first."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.reservations import reservation_grid
    from tgpu.text.instants import zone_text

    with connected(api_url) as client:
        found = client.list_reservations(tenant)
    if as_json:
        show_json(found)
    elif not found.reservations:
        note("nothing is reserved; see: tgpu reserve --help")
    else:
        show_lines(lay_out(reservation_grid(found, environment.now_ms()), width()))
        note(f"times are {zone_text(environment.now_ms())}")


def unreserve(
    reservation: Annotated[str, typer.Argument(metavar="ID", help="Id of a reservation.")],
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Cancel a reservation. Its waiting jobs are cancelled; running ones continue."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json

    with connected(api_url) as client:
        gone = client.cancel_reservation(reservation)
    if as_json:
        show_json(gone)
    else:
        say(f"reservation {gone.id} is cancelled")


def _show_made(made: "ReservationModel") -> None:
    from tgpu.cli.output import note, say
    from tgpu.cli.render.grid import clean
    from tgpu.cli.render.reservations import gpus_text, when_text
    from tgpu.text.instants import instant_text, iso_millis, zone_text

    now = environment.now_ms()
    where = f"{gpus_text(made)} of {clean(made.node)}"
    say(f"{made.id}: {where}, {when_text(made, now)} {zone_text(now)}")
    note(f"use it with: tgpu submit --reservation {made.id} --gpus {len(made.gpus)} -- COMMAND")
    if made.unused_minutes is not None:
        back_at = iso_millis(made.starts_at) + round(made.unused_minutes * 60_000)
        if back_at < iso_millis(made.ends_at):
            note(f"released if no job has run or waits in it by {instant_text(back_at, now)}")


def _refused(error: "ClientError") -> "Failure":
    """With the time at which it would be possible, as it must be typed here."""
    from tgpu.cli.failures import of_client_error
    from tgpu.cli.submit.submission import in_options
    from tgpu.text.instants import instant_text, iso_millis

    failure = in_options(of_client_error(error), _OPTIONS)
    for fact in error.details:
        if isinstance(fact, dict) and isinstance(fact.get("free_at"), str):
            # Far enough back to make the date part of it: "Fri" cannot be typed.
            shown = instant_text(iso_millis(fact["free_at"]), 0)
            failure.remedy = f'it would be possible with: --at "{shown}"'
    return failure


def _starts_at(text: str) -> str | None:
    """ISO 8601 in UTC; None: now, by the clock of the service."""
    from tgpu.text.instants import iso_text, parse_instant

    if text.strip().lower() == "now":
        return None
    return iso_text(parse_instant(text, environment.now_ms())).replace("+00:00", "Z")


def _unused_minutes(text: str) -> float:
    from tgpu.text.durations import parse_duration

    return 0 if text.strip().lower() == "never" else parse_duration(text) / 60
