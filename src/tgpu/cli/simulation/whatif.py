"""`tgpu whatif`: simulates the last days with other quotas, nodes or rules, compared with what
really happened."""

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.journals import Config, Database, DataDir, JournalFile, JournalSource, opened, reading
from tgpu.cli.options import ApiUrl, Json, examples, read_option
from tgpu.cli.simulation.command import OldBackfill, Placing, SimulatedBackfill
from tgpu.text.past_instants import parse_past

if TYPE_CHECKING:
    from tgpu.core.model.events import Scalar
    from tgpu.core.model.ids import TenantId
    from tgpu.core.model.node import Node
    from tgpu.journal.recorded_past import RecordedPast
    from tgpu.journal.resimulate import Changes

EPILOG = examples(
    "tgpu whatif --quota vision.A100=4",
    "tgpu whatif --add-node 8xH100 --since 30d",
    "tgpu whatif --policy fairshare --backfill easy",
    "tgpu whatif journal.ndjson.gz --remove-node gpu-07",
    "tgpu whatif --set scheduler.hold_after_seconds=600",
)

_NODE: Final = re.compile(r"(?:(?P<nodes>\d{1,4})x)?(?P<gpus>\d{1,3})x(?P<type>[^\s,=]{1,60})")
_QUOTA: Final = re.compile(r"(?P<who>[^=]+)=(?P<gpus>none|\d+(?:\.\d+)?)")
_MOST_NODES: Final = 10_000


def whatif(
    file: JournalFile = None,
    *,
    quota: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TENANT[.TYPE]=GPUS", help="Change a quota; none for no limit. Repeatable."
        ),
    ] = None,
    add_node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NODESx]GPUSxTYPE", help="Add nodes: 8xH100, or 2x8xH100. Repeatable."
        ),
    ] = None,
    remove_node: Annotated[
        list[str] | None, typer.Option(metavar="NODE", help="Remove this node. Repeatable.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="NAME", help="Scheduling policy, as scheduler.policy.")
    ] = None,
    backfill: Annotated[
        SimulatedBackfill | None, typer.Option(help="Backfill mode, as scheduler.backfill.")
    ] = None,
    passing: OldBackfill = None,
    placement: Annotated[
        Placing | None, typer.Option(help="Placement strategy, as scheduler.placement.")
    ] = None,
    preemption: Annotated[
        bool | None,
        typer.Option("--preemption/--no-preemption", help="Allow preemption."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change any scheduler setting. Repeatable."
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            metavar="TIME", help="Start of the period: 7d (ago), 2026-11-10. Default: all."
        ),
    ] = "7d",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="End of the period.")] = None,
    database: Database = None,
    config: Config = None,
    data_dir: DataDir = None,
    api_url: ApiUrl = None,
    as_json: Json = False,
) -> None:
    """Show how the past would have gone with other quotas, nodes or settings.

    The jobs of the journal are submitted again at the same times with the same run times, and the
    service's own code schedules them: once with the old settings, once with the change. Without a
    change it shows how close the simulation is to what really happened.
    """
    from tgpu.app import whatif as again
    from tgpu.app.refusal import CannotServe
    from tgpu.cli.environment import now_ms

    now = now_ms()
    begin = None if since == "all" else read_option("--since", lambda t: parse_past(t, now), since)
    end = None if until is None else read_option("--until", lambda t: parse_past(t, now), until)
    overrides = _overrides(policy, backfill or passing, placement, preemption, set_ or [])
    try:
        again.check_overrides(overrides)
    except (CannotServe, ValueError) as error:
        raise bad_input(str(error), "docs/reference/settings.md has all settings") from error
    source = JournalSource(file, api_url, database, config, data_dir)
    with opened(source) as journal, reading(journal.header.last_seq) as tell:
        past = again.past_of(journal, begin, end, tell)
    if past is None or not past.lives:
        raise Failure(
            "there were no jobs in this period",
            "--since all takes the whole journal",
            code="NO_JOBS",
        )
    changes = _changes(past, quota or [], add_node or [], remove_node or [])
    try:
        with reading(0) as tell:
            found = again.compare(past, changes, overrides, tell=tell)
    except CannotServe as error:
        raise Failure(f"the settings of that time are not available here: {error}") from error
    _show(found, as_json)


def _show(found: object, as_json: bool) -> None:
    from tgpu.app.whatif import Compared
    from tgpu.cli.output import note, say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.whatif import document, headline, summary_grid, tenant_grid

    assert isinstance(found, Compared)
    if as_json:
        show_json(document(found))
        return
    say(headline(found))
    show_lines(lay_out(summary_grid(found), width()))
    say("")
    show_lines(lay_out(tenant_grid(found), width()))
    for text in found.notes:
        note(f"note: {text}")


def _overrides(
    policy: str | None,
    backfill: SimulatedBackfill | None,
    placement: Placing | None,
    preemption: bool | None,
    settings: list[str],
) -> "dict[str, Scalar]":
    import yaml

    named: dict[str, Scalar] = {
        "scheduler.policy": policy,
        "scheduler.backfill": None if backfill is None else backfill.value,
        "scheduler.placement": None if placement is None else placement.value,
        "scheduler.enable_preemption": preemption,
    }
    found: dict[str, Scalar] = {k: value for k, value in named.items() if value is not None}
    for text in settings:
        key, is_there, value = text.partition("=")
        if not is_there or not key.startswith("scheduler."):
            raise bad_input(f"--set {text}: write scheduler.NAME=VALUE")
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            read = value
        if not isinstance(read, str | int | float | bool):
            raise bad_input(f"--set {text}: {value!r} is not a value of a setting")
        found[key] = read
    return found


def _changes(
    past: "RecordedPast", quotas: list[str], add: list[str], remove: list[str]
) -> "Changes":
    from tgpu.core.model.ids import NodeId
    from tgpu.journal.resimulate import Changes

    ledger = past.beginning().state.ledger
    tenants = {*ledger.tenants, *past.tenants()}
    nodes = [*(ledger.node(node_id).node for node_id in ledger.node_ids()), *past.nodes()]
    known = {node.node_id for node in nodes}
    for name in remove:
        if name not in known:
            there = ", ".join(sorted(known)[:8]) or "none"
            raise bad_input(f"--remove-node {name}: there was no such node; there were: {there}")
    return Changes(
        dict(_quota(text, tenants) for text in quotas),
        tuple(node for text in add for node in _nodes(text, nodes)),
        frozenset(NodeId(name) for name in remove),
    )


def _quota(text: str, tenants: "set[TenantId]") -> "tuple[tuple[TenantId, str | None], int | None]":
    from tgpu.core.model.ids import TenantId
    from tgpu.core.model.units import GPU

    found = _QUOTA.fullmatch(text.strip())
    if found is None:
        raise bad_input(f"--quota {text}: write TENANT=GPUS, TENANT.TYPE=GPUS or …=none")
    who, gpu_type = TenantId(found["who"]), None
    if who not in tenants and "." in who:
        name, _, gpu_type = who.rpartition(".")
        who = TenantId(name)
    if who not in tenants:
        there = ", ".join(sorted(tenants)[:8])
        raise bad_input(f"--quota {text}: there was no tenant {who!r}; there were: {there}")
    millis = None if found["gpus"] == "none" else round(float(found["gpus"]) * GPU)
    return (who, gpu_type or None), millis


def _nodes(text: str, known: "list[Node]") -> "list[Node]":
    """Like those that are there: what a GPU of this type has, and what a node has of the rest."""
    from tgpu.core.model.ids import NodeId
    from tgpu.core.model.node import Gpu, Node

    found = _NODE.fullmatch(text.strip())
    count = int(found["nodes"] or 1) if found is not None else 0
    if found is None or not count or not int(found["gpus"]) or count > _MOST_NODES:
        raise bad_input(f"--add-node {text}: write GPUSxTYPE or NODESxGPUSxTYPE, e.g. 8xH100")
    kind = found["type"]
    alike = [gpu.mem_mib for node in known for gpu in node.gpus if gpu.gpu_type == kind]
    others = [gpu.mem_mib for node in known for gpu in node.gpus]
    memory = max(alike or others or [81_920])
    cpu = max((node.cpu_millis for node in known), default=256_000)
    ram = max((node.mem_mib for node in known), default=2_097_152)
    labels = known[0].labels if len(known) == 1 else ()
    made = []
    for number in range(1, count + 1):
        name = f"added-{kind.lower()}-{number}"
        gpus = tuple(
            Gpu(at, f"{name}-{at}", kind, memory, nvlink_group=0)
            for at in range(int(found["gpus"]))
        )
        made.append(Node(NodeId(name), gpus, cpu, ram, simulated=True, labels=labels))
    return made
