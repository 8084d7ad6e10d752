"""Commands about tenants: list, show, create, change, deactivate, usage."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

if TYPE_CHECKING:
    from tgpu.wire.tenants_v1 import TenantModel

EPILOG = examples(
    "tgpu tenants list",
    'tgpu tenants create "ML Research Team" --id research --max-gpus 16',
    "tgpu tenants change research --max-gpus 8 --tier high",
    "tgpu tenants usage research --days 7",
)
_LIST_EPILOG = examples("tgpu tenants list", "tgpu tenants list --json | jq -r '.tenants[].id'")
_SHOW_EPILOG = examples("tgpu tenants show research", "tgpu tenants show research --json")
_CREATE_EPILOG = examples(
    'tgpu tenants create "ML Research Team" --max-gpus 16 --max-gpu-mem 200G --max-jobs 20',
    "tgpu tenants create Vision --id vision --max-gpus-of A100=2 --max-gpus-of H100=1",
    "tgpu tenants create Vision --id vision --max-gpus 8 --cohort science --max-lend 4",
    "tgpu tenants create Vision --id vision --system-user",
)
_CHANGE_EPILOG = examples(
    "tgpu tenants change vision --max-gpus 8 --weight 2",
    "tgpu tenants change vision --max-gpus none",
    "tgpu tenants change vision --run-as vision-jobs",
    "tgpu tenants change vision --members-see nothing",
    "tgpu tenants change vision --budget-hours 500 --budget-window month --budget-action hold",
    "tgpu tenants change vision --active",
)
_DEACTIVATE_EPILOG = examples("tgpu tenants deactivate vision")
_USAGE_EPILOG = examples("tgpu tenants usage vision", "tgpu tenants usage vision --days 7 --json")

app = typer.Typer(
    name="tenants",
    help="Tenants (projects), their limits and their use.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class TierChoice(StrEnum):
    LOW = "low"
    NORMAL = "normal"
    HIGH = "high"
    URGENT = "urgent"


class WindowChoice(StrEnum):
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    TOTAL = "total"


class BudgetAction(StrEnum):
    WARN = "warn"
    HOLD = "hold"
    STOP = "stop"


class MembersSeeChoice(StrEnum):
    NOTHING = "nothing"
    JOBS = "jobs"
    LOGS = "logs"


TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="Id of a tenant.")]
MaxGpus = Annotated[
    str | None, typer.Option(metavar="N", help="GPUs at once, of all types; none for no limit.")
]
MaxGpusOf = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE=N", help="GPUs of one type at once; repeat for others."),
]
MaxGpuMem = Annotated[
    str | None, typer.Option(metavar="SIZE", help="GPU memory at once; none for no limit.")
]
MaxCpus = Annotated[
    str | None, typer.Option(metavar="N", help="CPU cores at once; none for no limit.")
]
MaxMem = Annotated[
    str | None, typer.Option(metavar="SIZE", help="Memory at once; none for no limit.")
]
MaxJobs = Annotated[
    str | None, typer.Option(metavar="N", help="Jobs running at once; none for no limit.")
]
MaxPriority = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Highest priority its users may set; none for the service's limit.",
    ),
]
TierOption = Annotated[
    TierChoice | None,
    typer.Option(case_sensitive=False, help="Default priority of its jobs."),
]
Weight = Annotated[
    float | None,
    typer.Option(metavar="N", min=0.001, max=1000, help="Weight of its fair share."),
]
Preemption = Annotated[
    bool | None, typer.Option("--preemption/--no-preemption", help="Allow preemption of its jobs.")
]
Cohort = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Cohort, whose tenants lend each other idle GPUs; none for no cohort."
    ),
]
MaxBorrow = Annotated[
    str | None,
    typer.Option(metavar="N", help="GPUs it may borrow beyond --max-gpus; none for no limit."),
]
MaxLend = Annotated[
    str | None,
    typer.Option(metavar="N", help="Maximum of its own GPUs it lends; none for no limit."),
]
BudgetHours = Annotated[
    str | None,
    typer.Option(metavar="N", help="GPU-hours per window; none for no budget."),
]
BudgetCost = Annotated[
    str | None,
    typer.Option(metavar="N", help="Budget as money, at billing.cost_per_gpu_hour."),
]
BudgetWindow = Annotated[
    WindowChoice | None,
    typer.Option(case_sensitive=False, help="Window of the budget. Default: month."),
]
OnBudget = Annotated[
    BudgetAction | None,
    typer.Option(
        "--budget-action",
        case_sensitive=False,
        help="When the budget is used up: warn (default), hold new jobs, or stop running ones too.",
    ),
]
RunAsUser = Annotated[
    str | None,
    typer.Option(
        "--run-as", metavar="USER", help="Local user that its jobs run as; none to unset."
    ),
]
SystemUser = Annotated[
    bool, typer.Option("--system-user", help="Create a local user for its jobs: tgpu-TENANT.")
]
MembersSee = Annotated[
    MembersSeeChoice | None,
    typer.Option(
        case_sensitive=False,
        help="What members see of each other's jobs: nothing, jobs (default), or logs too.",
    ),
]
Enforce = Annotated[bool | None, typer.Option("--enforce/--no-enforce", help="Enforce the quota.")]


@app.command("list", epilog=_LIST_EPILOG)
def list_tenants(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show all tenants with their use and limits."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.tenants import tenant_grid

    with connected(api_url) as client:
        found = client.list_tenants()
    if as_json:
        show_json(found)
    else:
        show_lines(lay_out(tenant_grid(found.tenants), width()))


@app.command("show", epilog=_SHOW_EPILOG)
def show(tenant: TenantArgument, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the details of a tenant."""
    from tgpu.cli.connect import connected

    with connected(api_url) as client:
        _print(client.get_tenant(tenant), as_json)


@app.command("create", epilog=_CREATE_EPILOG)
def create(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Display name.")],
    *,
    tenant_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Id of the tenant. Default: generated.")
    ] = None,
    max_gpus: MaxGpus = None,
    max_gpus_of: MaxGpusOf = None,
    max_gpu_mem: MaxGpuMem = None,
    max_cpus: MaxCpus = None,
    max_mem: MaxMem = None,
    max_jobs: MaxJobs = None,
    max_priority: MaxPriority = None,
    tier: TierOption = None,
    weight: Weight = None,
    preemption: Preemption = None,
    enforce: Enforce = None,
    cohort: Cohort = None,
    max_borrow: MaxBorrow = None,
    max_lend: MaxLend = None,
    budget_hours: BudgetHours = None,
    budget_cost: BudgetCost = None,
    budget_window: BudgetWindow = None,
    budget_action: OnBudget = None,
    run_as: RunAsUser = None,
    system_user: SystemUser = False,
    members_see: MembersSee = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Create a tenant. Limits that are left out are unlimited."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, say, show_json
    from tgpu.cli.tenants.tenant_fields import tenant_fields
    from tgpu.wire.tenants_v1 import TenantCreate

    fields = tenant_fields(context.params)
    with connected(api_url) as client:
        made = client.create_tenant(TenantCreate.model_validate(fields))
    if as_json:
        show_json(made)
    else:
        say(f"tenant {made.id} created; submit for it with: tgpu submit --tenant {made.id} -- …")
        if system_user:
            note(f"its jobs run as {made.run_as}, a user that was made for them")


@app.command("change", epilog=_CHANGE_EPILOG)
def change(
    context: typer.Context,
    tenant: TenantArgument,
    *,
    name: Annotated[str | None, typer.Option(metavar="TEXT", help="Display name.")] = None,
    max_gpus: MaxGpus = None,
    max_gpus_of: MaxGpusOf = None,
    max_gpu_mem: MaxGpuMem = None,
    max_cpus: MaxCpus = None,
    max_mem: MaxMem = None,
    max_jobs: MaxJobs = None,
    max_priority: MaxPriority = None,
    tier: TierOption = None,
    weight: Weight = None,
    preemption: Preemption = None,
    enforce: Enforce = None,
    cohort: Cohort = None,
    max_borrow: MaxBorrow = None,
    max_lend: MaxLend = None,
    budget_hours: BudgetHours = None,
    budget_cost: BudgetCost = None,
    budget_window: BudgetWindow = None,
    budget_action: OnBudget = None,
    run_as: RunAsUser = None,
    system_user: SystemUser = False,
    members_see: MembersSee = None,
    active: Annotated[
        bool | None, typer.Option("--active/--inactive", help="Allow it to submit and start jobs.")
    ] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Change a tenant. Options left out stay as they are; `--max-gpus none` removes a limit.

    `--max-gpus-of` replaces all limits by type. Running jobs continue, whatever the new limits.
    """
    from tgpu.cli.connect import connected
    from tgpu.cli.failures import bad_input
    from tgpu.cli.tenants.tenant_fields import tenant_fields
    from tgpu.wire.tenants_v1 import TenantPatch

    fields = tenant_fields(context.params)
    if not fields:
        raise bad_input("nothing to change", "see: tgpu tenants change --help")
    with connected(api_url) as client:
        _print(client.change_tenant(tenant, TenantPatch.model_validate(fields)), as_json)


@app.command("deactivate", epilog=_DEACTIVATE_EPILOG)
def deactivate(tenant: TenantArgument, as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Deactivate a tenant: it can submit and start no more jobs. Running jobs continue; its history
    stays."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import note, say, show_json

    with connected(api_url) as client:
        found = client.deactivate_tenant(tenant)
    if as_json:
        show_json(found)
        return
    say(f"tenant {found.id} is inactive")
    note(f"make it active again with: tgpu tenants change {found.id} --active")


@app.command("usage", epilog=_USAGE_EPILOG)
def usage(
    tenant: TenantArgument,
    days: Annotated[int, typer.Option(metavar="N", min=1, max=3660, help="Number of days.")] = 30,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the use of a tenant, in total and by day (UTC)."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.tenants import usage_grid, usage_line

    with connected(api_url) as client:
        found = client.tenant_usage(tenant, days)
    if as_json:
        show_json(found)
        return
    say(usage_line(found))
    if found.days:
        show_lines(lay_out(usage_grid(found), width()))


def _print(found: "TenantModel", as_json: bool) -> None:
    from tgpu.cli.output import show_json, show_lines
    from tgpu.cli.render.tenants import tenant_facts

    if as_json:
        show_json(found)
    else:
        show_lines(tenant_facts(found))
