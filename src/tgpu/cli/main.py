"""The command `tgpu`: all commands, and the one place where errors become words and exit codes."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from tgpu.cli import about, option_words
from tgpu.cli.cluster import gpus as cluster
from tgpu.cli.cluster import nodes, notices, pausing, reservations, status
from tgpu.cli.config import command as config
from tgpu.cli.database import command as db
from tgpu.cli.doctor import command as doctor
from tgpu.cli.doctor import testing
from tgpu.cli.exit_codes import JOB_CANCELLED, MEANINGS, ExitCode
from tgpu.cli.failures import Failure, of_client_error, of_validation
from tgpu.cli.history import accuracy, export, replay, report
from tgpu.cli.jobs import actions, edit, listing, logs, pausing_jobs, preemption, receipt
from tgpu.cli.options import ApiUrl
from tgpu.cli.serving import agent, gateway, unit
from tgpu.cli.serving import command as service
from tgpu.cli.sessions import attaching, lease, shell
from tgpu.cli.sessions import run as interactive
from tgpu.cli.simulation import command as sim
from tgpu.cli.simulation import predict, whatif
from tgpu.cli.submit import add, importing, jobs_file, size
from tgpu.cli.submit import command as submit
from tgpu.cli.tenants import budget, keys, queues, share
from tgpu.cli.tenants import command as tenants
from tgpu.cli.top import command as top
from tgpu.client.errors import ClientError, StartFailed
from tgpu.text.instants import in_local_time

_EPILOG = "\n".join(
    [
        "[bold]First steps[/bold]",
        "  tgpu submit --gpus 1 -- python train.py    queue a command",
        "  tgpu list                                  see what runs and why others wait",
        "  tgpu logs -f last                          follow its output",
        "",
        "[bold]Exit codes[/bold]",
        *(f"  {code.value:<4} {meaning}" for code, meaning in MEANINGS.items()),
        f"  `wait` and `submit --wait` return the job's own code ({JOB_CANCELLED}: cancelled).",
    ]
)
_CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
_DAILY_PANEL = "Common commands"
# What people use all the time, before everything else in the help.
DAILY = ("submit", "run", "list", "show", "why", "logs", "wait", "cancel", "status", "top")
_JOBS = "Jobs"
_MACHINE = "GPUs and nodes"
_SERVICE = "Scheduler"
_TENANTS = "Tenants"

app = typer.Typer(
    name="tgpu",
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    epilog=_EPILOG,
    context_settings=_CONTEXT,
)


@app.callback(invoke_without_command=True)
def tgpu(
    context: typer.Context,
    api_url: ApiUrl = None,
    version: bool = typer.Option(False, "--version", help="Print the version."),
) -> None:
    """Run jobs on GPUs: queue commands, see why they wait, and share the machine."""
    if version:
        about.version()
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())
    elif api_url is not None:
        from tgpu.cli.connect import url_before_command

        url_before_command.set(api_url)


def _add(
    name: str,
    function: Callable[..., int | None],
    epilog: str,
    panel: str,
    *,
    is_hidden: bool = False,
    settings: dict[str, Any] | None = None,
    cls: type[TyperCommand] | None = None,
) -> None:
    # One line a paragraph: the terminal's width decides where lines end, not ours.
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    app.command(
        name,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog=epilog,
        rich_help_panel=panel,
        hidden=is_hidden,
        context_settings=settings,
        cls=cls,
    )(function)


# The command begins where the options end, so that its own options need no quoting.
_add(
    "submit",
    submit.submit,
    submit.EPILOG,
    _JOBS,
    settings={"allow_interspersed_args": False},
    cls=option_words.SubmitCommand,
)
_add(
    "run",
    interactive.run,
    interactive.EPILOG,
    _JOBS,
    settings={"allow_interspersed_args": False},
)
_add("add", add.add, add.EPILOG, _JOBS)
_add("import", importing.import_jobs, importing.EPILOG, _JOBS)
_add("list", listing.list_jobs, listing.LIST_EPILOG, _JOBS)
_add("watch", listing.watch, listing.WATCH_EPILOG, _JOBS)
_add("show", listing.show, listing.SHOW_EPILOG, _JOBS)
_add("why", listing.why, listing.WHY_EPILOG, _JOBS)
_add("logs", logs.logs, logs.LOGS_EPILOG, _JOBS)
_add("screens", attaching.screens, attaching.SCREENS_EPILOG, _JOBS)
_add("attach", attaching.attach, attaching.ATTACH_EPILOG, _JOBS)
_add("lease", lease.lease, lease.EPILOG, _JOBS)
_add("shell", shell.shell, shell.EPILOG, _JOBS)
_add("wait", logs.wait, logs.WAIT_EPILOG, _JOBS)
_add("cancel", actions.cancel, actions.CANCEL_EPILOG, _JOBS)
_add("hold", actions.hold, actions.HOLD_EPILOG, _JOBS)
_add("release", actions.release, actions.RELEASE_EPILOG, _JOBS)
_add("pause", pausing_jobs.pause, pausing_jobs.PAUSE_EPILOG, _JOBS)
_add("resume", pausing_jobs.resume, pausing_jobs.RESUME_EPILOG, _JOBS)
# A number below zero is a value here, not an option.
_add(
    "priority",
    actions.priority,
    actions.PRIORITY_EPILOG,
    _JOBS,
    settings={"ignore_unknown_options": True},
)
_add("edit", edit.edit, edit.EPILOG, _JOBS)
_add("rerun", actions.rerun, actions.RERUN_EPILOG, _JOBS)
_add("complete", actions.complete, actions.COMPLETE_EPILOG, _JOBS)
_add("checkpoint", preemption.checkpoint, preemption.CHECKPOINT_EPILOG, _JOBS)
_add("accuracy", accuracy.accuracy, accuracy.EPILOG, _JOBS)
_add("receipt", receipt.receipt, receipt.EPILOG, _JOBS)
_add("preemptions", preemption.preemptions, preemption.PREEMPTIONS_EPILOG, _JOBS)
_add("size", size.size, size.EPILOG, _JOBS)
_add("status", status.status, status.STATUS_EPILOG, _MACHINE)
_add("top", top.top, top.EPILOG, _MACHINE)
_add("metrics", status.metrics, status.METRICS_EPILOG, _SERVICE)
_add("health", status.health, status.HEALTH_EPILOG, _SERVICE)
_add("gpus", cluster.gpus, cluster.GPUS_EPILOG, _MACHINE)
_add("pause-gpu", pausing.pause_gpu, pausing.PAUSE_EPILOG, _MACHINE)
_add("adopt", cluster.adopt, cluster.ADOPT_EPILOG, _MACHINE)
_add("resume-gpu", pausing.resume_gpu, pausing.RESUME_EPILOG, _MACHINE)
_add("drain", pausing.drain, pausing.DRAIN_EPILOG, _MACHINE)
_add("reserve", reservations.reserve, reservations.RESERVE_EPILOG, _MACHINE)
_add("reservations", reservations.reservations, reservations.LIST_EPILOG, _MACHINE)
_add("unreserve", reservations.unreserve, reservations.UNRESERVE_EPILOG, _MACHINE)
_add("budget", budget.budget, budget.EPILOG, _TENANTS)
_add("share", share.share, share.EPILOG, _TENANTS)
_add("nodes", nodes.nodes, nodes.EPILOG, _MACHINE)
_add("agent", agent.agent, agent.EPILOG, _MACHINE)
_add("start", service.start, service.START_EPILOG, _SERVICE)
_add("stop", service.stop, service.STOP_EPILOG, _SERVICE)
_add("serve", service.serve, service.SERVE_EPILOG, _SERVICE)
_add("gateway", gateway.gateway, gateway.EPILOG, _SERVICE)
_add("doctor", doctor.doctor, doctor.EPILOG, _SERVICE)
_add("test", testing.try_out, testing.EPILOG, _SERVICE)
_add("export", export.export, export.EPILOG, _SERVICE)
_add("report", report.report, report.EPILOG, _SERVICE)
_add("replay", replay.replay, replay.EPILOG, _SERVICE)
_add("whatif", whatif.whatif, whatif.EPILOG, _SERVICE)
_add("config-sample", about.config_sample, about.CONFIG_EPILOG, _SERVICE)
_add("config-schema", about.config_schema, about.SCHEMA_EPILOG, _SERVICE)
_add("job-schema", about.job_schema, about.JOB_SCHEMA_EPILOG, _SERVICE)
_add("version", about.version, about.VERSION_EPILOG, _SERVICE)
app.add_typer(jobs_file.app, name="jobs-file", rich_help_panel=_JOBS)
app.add_typer(tenants.app, name="tenants", rich_help_panel=_TENANTS)
app.add_typer(queues.app, name="queues", rich_help_panel=_TENANTS)
app.add_typer(queues.quota_app, name="quota", rich_help_panel=_TENANTS)
app.add_typer(unit.app, name="service", rich_help_panel=_SERVICE)
app.add_typer(config.app, name="config", rich_help_panel=_SERVICE)
app.add_typer(db.app, name="db", rich_help_panel=_SERVICE)
app.add_typer(notices.app, name="notices", rich_help_panel=_SERVICE)
app.add_typer(keys.app, name="keys", rich_help_panel=_SERVICE)
app.add_typer(predict.app, name="predict", rich_help_panel=_SERVICE)
app.add_typer(sim.app, name="sim", rich_help_panel=_SERVICE)
_add("audit", keys.audit, keys.AUDIT_EPILOG, _SERVICE)
_add("whoami", keys.whoami, keys.WHOAMI_EPILOG, _SERVICE)
# Spellings that people bring from elsewhere.
_add("list-jobs", listing.list_jobs, listing.LIST_EPILOG, _JOBS, is_hidden=True)
_add("cancel-job", actions.cancel, actions.CANCEL_EPILOG, _JOBS, is_hidden=True)


def build_command() -> TyperGroup:
    """All commands. Flags take no value, so their help must not show a type."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    daily = {name: group.commands[name] for name in DAILY if name in group.commands}
    for command in daily.values():
        command.rich_help_panel = _DAILY_PANEL  # type: ignore[attr-defined]  # Typer's, of all
    group.commands = {**daily, **group.commands}
    for command in _with_subcommands(group):
        options = [*command.params, command.get_help_option(typer.Context(command, **_CONTEXT))]
        for option in options:
            if isinstance(option, TyperOption) and option.is_flag:
                option.metavar = ""
    return group


def _with_subcommands(command: TyperCommand | TyperGroup) -> list[TyperCommand | TyperGroup]:
    found: list[TyperCommand | TyperGroup] = [command]
    if isinstance(command, TyperGroup):
        for each in command.commands.values():
            assert isinstance(each, TyperCommand | TyperGroup)
            found += _with_subcommands(each)
    return found


def run() -> None:
    """The entry point of the `tgpu` script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a character gets a question mark instead of an error.
        stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # text streams at start
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. No exception leaves here."""
    from tgpu.cli.output import OutputClosed

    try:
        result = build_command()(list(arguments), prog_name="tgpu", standalone_mode=False)
        sys.stdout.flush()
    except (OutputClosed, BrokenPipeError):
        # Nobody reads any more, which is how `tgpu list | head` ends well. The interpreter
        # flushes once more at exit, so let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.OK
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _report(_failure(error), as_json=_wants_json(arguments))
    return result if isinstance(result, int) else ExitCode.OK


def _failure(error: Exception) -> Failure:
    match error:
        case Failure():
            return error
        case typer.TyperException():
            return _usage(error)
        case ClientError():
            return of_client_error(error)
        case StartFailed():
            return Failure(error.message, "`tgpu doctor` checks for the cause", code="START_FAILED")
        case OSError():
            return Failure(_of_the_system(error), code="OS_ERROR")
    return _surprise(error)


def _surprise(error: Exception) -> Failure:
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and isinstance(error, pydantic.ValidationError):
        return of_validation(error)
    if isinstance(error, ValueError | TypeError | KeyError | AssertionError | RuntimeError):
        return Failure(
            f"internal error: {type(error).__name__}: {error}",
            "this is a bug in tgpu; please report it with the command you typed",
            code="INTERNAL_ERROR",
        )
    return Failure(f"{type(error).__name__}: {error}", code="FAILED")


def _usage(error: typer.TyperException) -> Failure:
    from tgpu.cli.usage_words import usage_failure

    return usage_failure(error)


def _of_the_system(error: OSError) -> str:
    from tgpu.text.system_words import system_words

    problem = system_words(error)
    return f"{error.filename}: {problem}" if error.filename else problem


def _report(failure: Failure, as_json: bool) -> int:
    """In words on standard error, or as JSON on standard output, where a program reads."""
    if as_json:
        typer.echo(json.dumps(failure.as_json(), indent=2, ensure_ascii=False, default=str))
    else:
        typer.echo(f"tgpu: {in_local_time(failure.message)}", err=True)
        if failure.remedy:
            typer.echo(f"  {failure.remedy}", err=True)
    return failure.exit_code


def _wants_json(arguments: Sequence[str]) -> bool:
    """Also known where the options could not be read. After `--` comes a job's own command."""
    words = list(arguments)
    return "--json" in (words[: words.index("--")] if "--" in words else words)
