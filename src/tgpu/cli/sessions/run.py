"""`tgpu run`: an interactive command on GPUs, with a terminal if there is one."""

import inspect
from typing import Annotated, Any, Final

import typer

from tgpu.cli.options import examples
from tgpu.cli.submit import command as submit

EPILOG = examples(
    "tgpu run --gpus 1 -- bash",
    "tgpu run --gpus 2 --type A100 --time 2h         (your shell)",
    "tgpu run --gpus 1 -- python -i notebook.py",
    "tgpu run -- python eval.py < questions.txt > answers.txt",
    "tgpu run --keep --name debug -- bash            (continues if the connection is lost)",
)
# Options of `submit` that make no sense for one job that somebody waits for.
_NOT_HERE: Final = frozenset(
    {
        *("array", "param", "lease", "when", "wait", "quiet", "hold", "screen", "tmux", "as_json"),
        *("workers", "auto", "job_id", "by_path", "retries", "backoff", "requeue"),
    }
)


def run(context: typer.Context, **values: Any) -> int:
    """Run a command on GPUs and stay connected to it, like `srun --pty`.

    It waits for its GPUs like any other job; Ctrl-C cancels it then. Once it runs, this terminal
    belongs to the job: Ctrl-C goes to the command, Ctrl-] d detaches (`tgpu attach` reconnects). It
    ends with the command and returns its exit code, or when the terminal closes, unless --keep is
    given. If standard input is not a terminal, input and output are passed through.
    """
    from tgpu.cli.sessions.running import run_job
    from tgpu.cli.submit.drafts import job_options
    from tgpu.cli.submit.one_word import refuse_one_word

    keep = values.pop("keep")
    if len(values["command"] or ()) == 1:
        refuse_one_word(values["command"][0], "tgpu run")
    return run_job(job_options(values), values["api_url"], keep=keep)


def _signature() -> inspect.Signature:
    """As `submit` has it, which has all there is to say about a job."""
    mine = inspect.signature(run).parameters["context"]
    theirs = inspect.signature(submit.submit).parameters
    kept = [each for name, each in theirs.items() if name not in (*_NOT_HERE, "context", "command")]
    command = theirs["command"].replace(
        annotation=Annotated[
            list[str] | None,
            typer.Argument(
                metavar="-- COMMAND", help="Command to run, after `--`. Default: your shell."
            ),
        ]
    )
    keep = inspect.Parameter(
        "keep",
        inspect.Parameter.KEYWORD_ONLY,
        default=False,
        annotation=Annotated[
            bool,
            typer.Option(
                "--keep", help="Keep running when this terminal closes; see `tgpu attach`."
            ),
        ],
    )
    return inspect.Signature([mine, command, *kept, keep])


run.__signature__ = _signature()  # type: ignore[attr-defined]  # what Typer reads
run.__annotations__ = {
    name: each.annotation
    for name, each in run.__signature__.parameters.items()  # type: ignore[attr-defined]
}
