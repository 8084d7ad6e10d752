"""`tgpu submit`: queues a command, and starts the scheduler if none is running."""

from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, complete_jobs, complete_tenants, examples

EPILOG = examples(
    "tgpu submit -- python train.py",
    "tgpu submit --gpus 2 --type A100 --time 2h30m -- python train.py --epochs 3",
    "tgpu submit --gpus 0.5 --gpu-mem 20G --wait -- python eval.py",
    "tgpu submit --param lr=0.1,0.01 --param bs=32,64 -- python t.py --lr {lr} --bs {bs}",
    "tgpu submit --array 1-100%8 -- ./step.sh        (TGPU_ARRAY_INDEX tells which)",
    "tgpu submit --after last -- python report.py",
    "tgpu submit --workers 4 --gpus 8 --type H100,A100 -- python train.py",
    "tgpu submit --gpus 2 --deadline 'tomorrow 9:00' --checkpoint-signal USR1 -- python t.py",
    "tgpu submit --gpus 4 --same-island --label rack=r1 --not-node n7 -- python train.py",
    "tgpu submit --conda ml --auto -- python eval.py --llm qwen2.5-7b-inst",
    "tgpu submit train.sh                            (#TGPU --gpus 2 in its header)",
    "tgpu submit job.yaml --priority 900",
    "tgpu submit --gpus 2 --lease                    (only reserve the GPUs)",
    "tgpu submit --gpus 8 --when -- python train.py  (only ask when it would start)",
)

RESOURCES = "Resources"
WHERE = "Where"
WHEN = "When and how often"
_SETTING = "Surroundings"
_OUTPUT = "Output"

# Options of `tgpu edit` too.
GpuMem = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="GPU memory per GPU, e.g. 40G.", rich_help_panel=RESOURCES),
]
GpuSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Only GPUs with at least this much memory, e.g. 80G.",
        rich_help_panel=RESOURCES,
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Memory, e.g. 64G.", rich_help_panel=RESOURCES),
]
TimeLimit = Annotated[
    str | None,
    typer.Option(metavar="SPAN", help="Time limit, e.g. 2h30m.", rich_help_panel=WHEN),
]


def submit(
    context: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- COMMAND",
            help="Command to run, after `--`; or a script with #TGPU lines, or a job file; - for "
            "standard input.",
        ),
    ] = None,
    *,
    gpus: Annotated[
        str | None,
        typer.Option(
            metavar="N",
            help="Number of GPUs per worker; 0.5 is half a GPU. Default: 1.",
            rich_help_panel=RESOURCES,
        ),
    ] = None,
    auto: Annotated[
        bool,
        typer.Option(
            "--auto",
            help="Choose the number of GPUs from past runs of its --llm or --model; see `tgpu "
            "size`.",
            rich_help_panel=RESOURCES,
        ),
    ] = False,
    workers: Annotated[
        int,
        typer.Option(
            metavar="N",
            min=1,
            max=10_000,
            help="Number of workers; all start together.",
            rich_help_panel=RESOURCES,
        ),
    ] = 1,
    gpu_type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE[,TYPE]",
            help="GPU type, e.g. A100; of several, the first is preferred.",
            rich_help_panel=RESOURCES,
        ),
    ] = None,
    gpu_mem: GpuMem = None,
    gpu_size: GpuSize = None,
    gpu_ids: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Only these GPUs: 0-3, 0,2 or b/0-3.", rich_help_panel=WHERE
        ),
    ] = None,
    not_gpu_ids: Annotated[
        str | None,
        typer.Option(
            metavar="IDS", help="Never these GPUs: 0-3, 0,2 or b/0-3.", rich_help_panel=WHERE
        ),
    ] = None,
    node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE[,NODE]", help="Only this node. Repeatable.", rich_help_panel=WHERE
        ),
    ] = None,
    not_node: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NODE[,NODE]", help="Never this node. Repeatable.", rich_help_panel=WHERE
        ),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V", help="Only nodes with this label. Repeatable.", rich_help_panel=WHERE
        ),
    ] = None,
    exclusive: Annotated[
        bool,
        typer.Option("--exclusive", help="No other jobs on its nodes.", rich_help_panel=WHERE),
    ] = False,
    same_island: Annotated[
        bool,
        typer.Option(
            "--same-island",
            help="Keep each worker on GPUs connected by NVLink.",
            rich_help_panel=WHERE,
        ),
    ] = False,
    spread: Annotated[
        bool,
        typer.Option(
            "--spread",
            help="Prefer the emptiest node over the fullest.",
            rich_help_panel=WHERE,
        ),
    ] = False,
    reservation: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Run in this reservation.", rich_help_panel=WHERE),
    ] = None,
    cpus: Annotated[
        float, typer.Option(metavar="N", help="CPU cores.", rich_help_panel=RESOURCES)
    ] = 0,
    mem: Memory = None,
    priority: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Higher goes first. Default: the tenant's tier, usually 500.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    time: TimeLimit = None,
    deadline: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Deadline: 14:00, 'tomorrow 9:00', +2h.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    no_preempt: Annotated[
        bool,
        typer.Option("--no-preempt", help="Never preempt this job.", rich_help_panel=WHEN),
    ] = False,
    checkpoint_signal: Annotated[
        str | None,
        typer.Option(
            metavar="SIGNAL",
            help="Signal to send before preemption, to save a checkpoint, e.g. USR1.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    after: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[,ID]",
            help="Start after these have completed; `last` is the newest job.",
            rich_help_panel=WHEN,
            autocompletion=complete_jobs,
        ),
    ] = None,
    after_any: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID[,ID]",
            help="Start after these have ended, with any result.",
            rich_help_panel=WHEN,
            autocompletion=complete_jobs,
        ),
    ] = None,
    hold: Annotated[
        bool, typer.Option("--hold", help="Hold it until `tgpu release`.", rich_help_panel=WHEN)
    ] = False,
    retries: Annotated[
        int,
        typer.Option(metavar="N", help="Number of retries when it fails.", rich_help_panel=WHEN),
    ] = 0,
    backoff: Annotated[
        str | None,
        typer.Option(
            metavar="SPAN",
            help="Delay before the first retry, e.g. 30s; doubles each time.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    requeue: Annotated[
        bool,
        typer.Option("--requeue", help="Run again if the machine fails.", rich_help_panel=WHEN),
    ] = False,
    array: Annotated[
        str | None,
        typer.Option(
            metavar="IDX[%N]",
            help="One job per index, at most N at once: 1-100%8.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    param: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=V,V",
            help="One job per value; replaces {NAME} in the command. Repeat for a grid.",
            rich_help_panel=WHEN,
        ),
    ] = None,
    name: Annotated[
        str, typer.Option(metavar="TEXT", help="Name of the job.", rich_help_panel=_SETTING)
    ] = "",
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant",
            "--tenant-id",
            metavar="ID",
            help="Tenant whose quota it uses. Default: TGPU_TENANT, else your only one.",
            autocompletion=complete_tenants,
            rich_help_panel=_SETTING,
        ),
    ] = None,
    queue: Annotated[
        str,
        typer.Option(metavar="NAME", help="Queue of that tenant.", rich_help_panel=_SETTING),
    ] = "default",
    job_id: Annotated[
        str | None,
        typer.Option(
            "--id",
            metavar="ID",
            help="Your own job id; submitting it twice makes one job.",
            rich_help_panel=_SETTING,
        ),
    ] = None,
    cwd: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", help="Working directory. Default: this one.", rich_help_panel=_SETTING
        ),
    ] = None,
    env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="K=V", help="Set an environment variable. Repeatable.", rich_help_panel=_SETTING
        ),
    ] = None,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Pass this variable (or NAME=@FILE) without ever showing it. Repeatable.",
            rich_help_panel=_SETTING,
        ),
    ] = None,
    no_env: Annotated[
        bool,
        typer.Option("--no-env", help="Do not pass my environment on.", rich_help_panel=_SETTING),
    ] = False,
    conda: Annotated[
        str,
        typer.Option(
            metavar="ENV", help="Run in this conda environment.", rich_help_panel=_SETTING
        ),
    ] = "",
    venv: Annotated[
        str,
        typer.Option(
            metavar="DIR", help="Run in this virtual environment.", rich_help_panel=_SETTING
        ),
    ] = "",
    uv: Annotated[
        str,
        typer.Option(metavar="DIR", help="Run in this uv project.", rich_help_panel=_SETTING),
    ] = "",
    screen: Annotated[
        bool,
        typer.Option(
            "--screen", help="Run in a GNU screen session: `tgpu attach`.", rich_help_panel=_SETTING
        ),
    ] = False,
    tmux: Annotated[
        bool,
        typer.Option(
            "--tmux", help="Run in a tmux session: `tgpu attach`.", rich_help_panel=_SETTING
        ),
    ] = False,
    log_limit: Annotated[
        str | None,
        typer.Option(
            "--log-limit",
            metavar="SIZE",
            help="Maximum size of each log, e.g. 100MB; the beginning and the end are kept.",
            rich_help_panel=_SETTING,
        ),
    ] = None,
    mail_user: Annotated[
        list[str] | None,
        typer.Option(
            "--mail-user",
            metavar="ADDRESS",
            help="Send mail to this address when the job ends.",
            rich_help_panel=_SETTING,
        ),
    ] = None,
    mail_type: Annotated[
        list[str] | None,
        typer.Option(
            "--mail-type",
            metavar="EVENT",
            help="When to send mail: start, end, failure, preemption, idle, deadline or all; "
            "Slurm's names too.",
            rich_help_panel=_SETTING,
        ),
    ] = None,
    lease: Annotated[
        bool,
        typer.Option(
            "--lease",
            help="Hold the GPUs without a command, until `tgpu complete`.",
            rich_help_panel=_SETTING,
        ),
    ] = False,
    when: Annotated[
        bool,
        typer.Option(
            "--when",
            help="Submit nothing; show when it would start and what would start it sooner.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option(
            "--wait",
            help="Wait: show its output and return its exit code; for a lease, wait for its GPUs.",
            rich_help_panel=_OUTPUT,
        ),
    ] = False,
    by_path: Annotated[
        bool,
        typer.Option(
            "--by-path",
            help="Run the script in place instead of a copy made now.",
            rich_help_panel=_SETTING,
        ),
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only the id.", rich_help_panel=_OUTPUT)
    ] = False,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> int:
    """Queue a command, a script, or the jobs of a file.

    It runs in this directory with this environment. If no scheduler runs for you, one is started in
    the background. Options may also be in the header of a script (`#TGPU --gpus 2`) or in a job
    file (`gpus: 2`); options on the command line take precedence.
    """
    from tgpu.cli.submit.send import Answering
    from tgpu.cli.submit.source import send_source

    # What describes the job is read off the context, by the names that it has here.
    return send_source(context, Answering(api_url, wait, quiet, as_json, when), by_path=by_path)
