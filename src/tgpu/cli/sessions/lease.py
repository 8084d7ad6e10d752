"""`tgpu lease`: holds GPUs for programs you start yourself, and prints the variables to export."""

import inspect
from typing import Annotated, Any, Final

import typer

from tgpu.cli.options import complete_jobs, examples
from tgpu.cli.submit import command as submit

EPILOG = examples(
    'eval "$(tgpu lease --gpus 2 --time 4h)"    (waits until the GPUs are yours)',
    "jupyter lab                                (sees these GPUs and no others)",
    "tgpu complete last                         (gives them back)",
    'eval "$(tgpu lease --of 7)"                (the same in another window)',
    "tgpu shell 7                               (or a shell that has it all)",
)
# Options of `submit` that are about a command, or about more than one job.
_NOT_HERE: Final = frozenset(
    {
        *("context", "command", "array", "param", "lease", "when", "wait", "quiet", "hold"),
        *("screen", "tmux", "workers", "auto", "by_path", "retries", "backoff", "requeue", "cwd"),
        *("env", "no_env", "secret", "conda", "venv", "uv", "log_limit", "checkpoint_signal"),
    }
)


def lease(context: typer.Context, **values: Any) -> int:
    """Hold GPUs without a command, and print the variables to export: `eval "$(tgpu lease …)"`.

    It waits in the queue like any job; Ctrl-C cancels it. The GPUs are yours until `tgpu complete`
    or the time limit.
    """
    from tgpu.cli.sessions.leasing import print_lease, take_lease
    from tgpu.cli.submit.drafts import job_options

    of, as_json, api_url = values.pop("of"), values["as_json"], values["api_url"]
    if of is not None:
        return print_lease(of, api_url, as_json=as_json)
    return take_lease({**job_options(values), "lease": True}, api_url, as_json=as_json)


def _signature() -> inspect.Signature:
    """As `submit` has it, as far as it is about GPUs."""
    mine = inspect.signature(lease).parameters["context"]
    theirs = inspect.signature(submit.submit).parameters
    of = inspect.Parameter(
        "of",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[
            str | None,
            typer.Option(
                "--of",
                metavar="JOB",
                help="Print what to export for this existing lease.",
                autocompletion=complete_jobs,
            ),
        ],
    )
    kept = [each for name, each in theirs.items() if name not in _NOT_HERE]
    return inspect.Signature([mine, *kept, of])


lease.__signature__ = _signature()  # type: ignore[attr-defined]  # what Typer reads
lease.__annotations__ = {
    name: each.annotation
    for name, each in lease.__signature__.parameters.items()  # type: ignore[attr-defined]
}
