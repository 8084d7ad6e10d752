"""Commands about queues (list, create, change, remove) and quotas (show, set)."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples
from tgpu.cli.tenants.user_quota import EPILOG as USER_EPILOG
from tgpu.cli.tenants.user_quota import user_quota

if TYPE_CHECKING:
    from tgpu.wire.tenants_v1 import QueueModel, QuotaModel

EPILOG = examples(
    "tgpu queues list",
    "tgpu queues create night --tenant vision --priority -10 --max-jobs 4",
    "tgpu queues change night --tenant vision --disable",
)
QUOTA_EPILOG = examples(
    "tgpu quota show vision",
    "tgpu quota set vision --gpus 8 --cpus 64 --mem 512G",
    "tgpu quota user vision --gpus 4 --jobs 10 --hours-a-day 24",
)
_LIST_EPILOG = examples("tgpu queues list", "tgpu queues list --tenant vision --json")
_CREATE_EPILOG = examples("tgpu queues create night --tenant vision --priority -10")
_CHANGE_EPILOG = examples(
    "tgpu queues change night --tenant vision --enable",
    "tgpu queues change night --max-jobs none",
    "tgpu queues change night --policy shortest --wait-target 30m --idle-action hold",
)
_REMOVE_EPILOG = examples("tgpu queues remove night --tenant vision")
_SHOW_EPILOG = examples("tgpu quota show", "tgpu quota show vision --json")
_SET_EPILOG = examples(
    "tgpu quota set vision --gpus 8 --cpus 64 --mem 512G", "tgpu quota set vision --gpus none"
)
_NAMES = {"help_option_names": ["-h", "--help"]}

app = typer.Typer(
    name="queues",
    help="Queues of a tenant: their priority, limits and policy.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings=_NAMES,
)
quota_app = typer.Typer(
    name="quota",
    help="Quotas of tenants and how much of them is in use.",
    epilog=QUOTA_EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings=_NAMES,
)


class IdleChoice(StrEnum):
    WARN = "warn"
    HOLD = "hold"
    END = "end"


QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of a queue.")]
Tenant = Annotated[
    str | None, typer.Option(metavar="ID", help="Tenant of the queue. Default: yours.")
]
QuotaTenant = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
MyTenant = Annotated[
    str | None, typer.Argument(metavar="[TENANT]", help="Id of a tenant; yours by default.")
]
Priority = Annotated[
    int | None,
    typer.Option(metavar="N", help="Jobs of a higher queue go first, whatever their own priority."),
]
MaxJobs = Annotated[
    str | None,
    typer.Option(metavar="N", help="Maximum number of running jobs; none for no limit."),
]


QueuePolicy = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Scheduling policy of its jobs; none for the scheduler's."),
]
WaitTarget = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="Target waiting time of its jobs, e.g. 30m; none for none."),
]
IdleAction = Annotated[
    IdleChoice | None,
    typer.Option(
        case_sensitive=False, help="What to do with jobs whose GPUs are idle. Default: warn."
    ),
]


@app.command("list", epilog=_LIST_EPILOG)
def list_queues(
    tenant: Annotated[str | None, typer.Option(metavar="ID", help="Only this tenant's.")] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the queues, highest priority first."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import show_json

    with connected(api_url) as client:
        found = client.list_queues(tenant)
    if as_json:
        show_json(found)
    else:
        _show(found)


@app.command("create", epilog=_CREATE_EPILOG)
def create(
    name: QueueArgument,
    *,
    tenant: Tenant = None,
    priority: Priority = None,
    max_jobs: MaxJobs = None,
    policy: QueuePolicy = None,
    wait_target: WaitTarget = None,
    idle_action: IdleAction = None,
    disabled: Annotated[
        bool, typer.Option("--disabled", help="Accept jobs, but start none yet.")
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Create a queue. Jobs use it with `tgpu submit --queue`."""
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.wire.tenants_v1 import QueueCreate

    fields = _fields(priority, max_jobs) | _aims(policy, wait_target, idle_action)
    with connected(api_url) as client:
        tenant_id = own_config.tenant_of(client, tenant)
        fields |= {"project_id": tenant_id, "name": name, "enabled": not disabled}
        _print(client.create_queue(QueueCreate.model_validate(fields)), as_json)


@app.command("change", epilog=_CHANGE_EPILOG)
def change(
    name: QueueArgument,
    *,
    tenant: Tenant = None,
    priority: Priority = None,
    max_jobs: MaxJobs = None,
    policy: QueuePolicy = None,
    wait_target: WaitTarget = None,
    idle_action: IdleAction = None,
    enable: Annotated[
        bool | None, typer.Option("--enable/--disable", help="Start jobs of this queue.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Change a queue. Options left out stay as they are."""
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.wire.tenants_v1 import QueuePatch

    fields = _fields(priority, max_jobs) | _aims(policy, wait_target, idle_action)
    if enable is not None:
        fields["enabled"] = enable
    if not fields:
        raise bad_input("nothing to change", "see: tgpu queues change --help")
    with connected(api_url) as client:
        queue_id = f"{own_config.tenant_of(client, tenant)}:{name}"
        _print(client.change_queue(queue_id, QueuePatch.model_validate(fields)), as_json)


@app.command("remove", epilog=_REMOVE_EPILOG)
def remove(
    name: QueueArgument, tenant: Tenant = None, as_json: Json = False, api_url: ApiUrl = None
) -> None:
    """Remove an empty queue."""
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json

    with connected(api_url) as client:
        tenant = own_config.tenant_of(client, tenant)
        client.remove_queue(f"{tenant}:{name}")
    if as_json:
        show_json({"id": f"{tenant}:{name}", "removed": True})
    else:
        say(f"queue {name} of tenant {tenant} is removed")


@quota_app.command("show", epilog=_SHOW_EPILOG)
def show_quota(tenant: MyTenant = None, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show a tenant's quota and how much of it is in use."""
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        _print_quota(client.get_quota(own_config.tenant_of(client, tenant)), as_json)


@quota_app.command("set", epilog=_SET_EPILOG)
def set_quota(
    tenant: QuotaTenant,
    *,
    gpus: Annotated[
        str | None, typer.Option(metavar="N", help="GPUs at once; none for no limit.")
    ] = None,
    cpus: Annotated[
        str | None, typer.Option(metavar="N", help="CPU cores at once; none for no limit.")
    ] = None,
    mem: Annotated[
        str | None, typer.Option(metavar="SIZE", help="Memory at once; none for no limit.")
    ] = None,
    enforce: Annotated[
        bool | None, typer.Option("--enforce/--no-enforce", help="Enforce the quota.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Set a tenant's quota. Options left out stay as they are."""
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.tenants import limits
    from tgpu.wire.tenants_v1 import QuotaPatch

    fields = limits.given_limits(
        {
            ("gpu_quota", "--gpus"): (gpus, limits.parse_gpus),
            ("cpu_quota", "--cpus"): (cpus, limits.parse_number),
            ("memory_quota", "--mem"): (mem, lambda text: limits.parse_size(text) / 1024),
        }
    )
    if enforce is not None:
        fields["enforce_quota"] = enforce
    if not fields:
        raise bad_input("nothing to set", "see: tgpu quota set --help")
    with connected(api_url) as client:
        _print_quota(client.change_quota(tenant, QuotaPatch.model_validate(fields)), as_json)


quota_app.command("user", epilog=USER_EPILOG)(user_quota)


def _fields(priority: int | None, max_jobs: str | None) -> dict[str, object]:
    from tgpu.cli.tenants import limits

    fields = limits.given_limits(
        {("max_concurrent_jobs", "--max-jobs"): (max_jobs, limits.parse_count)}
    )
    if priority is not None:
        fields["priority"] = priority
    return fields


def _aims(
    policy: str | None, wait_target: str | None, idle_action: IdleChoice | None
) -> dict[str, object]:
    from tgpu.cli.tenants import limits
    from tgpu.text.durations import parse_duration

    fields = limits.given_limits(
        {("wait_target_seconds", "--wait-target"): (wait_target, parse_duration)}
    )
    if policy is not None:
        fields["policy"] = "" if policy.lower() == limits.NONE else policy
    if idle_action is not None:
        fields["idle_action"] = idle_action.value
    return fields


def _print(queue: "QueueModel", as_json: bool) -> None:
    from tgpu.cli.output import show_json

    if as_json:
        show_json(queue)
    else:
        _show([queue])


def _show(queues: "list[QueueModel]") -> None:
    from tgpu.cli.output import show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.tenants import queue_grid

    show_lines(lay_out(queue_grid(queues), width()))


def _print_quota(quota: "QuotaModel", as_json: bool) -> None:
    from tgpu.cli.output import note, say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.tenants import quota_grid
    from tgpu.cli.render.user_limits import each_line, limits_text, user_grid

    if as_json:
        show_json(quota)
        return
    show_lines(lay_out(quota_grid(quota), width()))
    if limits_text(quota.user_limits) or any(user.by_name for user in quota.users):
        say(each_line(quota.user_limits))
        show_lines(lay_out(user_grid(quota.users), width()))
    if not quota.enforce_quota:
        note("the limits are shown, but not enforced")
    if quota.provider != "local":
        note(f"as quota provider {quota.provider} has it")
