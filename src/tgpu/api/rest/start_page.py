"""The page at `/`: what this is, and what to type first. It needs no script and no other file."""

import base64
import hashlib
from html import escape
from typing import Final

from tgpu import __version__
from tgpu.drawing.page import html_page

_WHAT: Final = (
    "Runs GPU jobs on one machine or for a whole team: it queues commands, assigns "
    "GPUs to them, says why a job waits and when it will start, and keeps its output."
)
_COMMANDS: Final = (
    ("tgpu submit --gpus 1 -- python train.py", "queue a job"),
    ("tgpu list", "waiting and running jobs"),
    ("tgpu logs last --follow", "the output of the newest job"),
    ("tgpu why last", "why it waits, and what would help"),
    ("tgpu status", "the GPUs and their users"),
    ("tgpu --help", "everything else; each command has a --help of its own"),
)
_FROM_ELSEWHERE: Final = (
    ("pip install tgpu", "the command line, and a client for Python"),
    ("export TGPU_URL=ADDRESS", "the address of this page"),
    ("export TGPU_API_KEY=KEY", "if the service requires keys: an administrator creates them"),
)
# Relative, for gateways and prefixes.
_LINKS: Final = (
    ("docs", "The API, to read and try out"),
    ("openapi.json", "The same for programs (OpenAPI)"),
    ("api/v1/health", "Health"),
    ("metrics", "Metrics for Prometheus (operators)"),
)


def start_page(*, is_known: bool) -> str:
    """As HTML. Who is not signed in is told nothing that is only of this service."""
    version = f" {escape(__version__)}" if is_known else ""
    sign_in = "" if is_known else "<p>You are not signed in: requests need an API key.</p>"
    links = "".join(f"<li><a href='{path}'>{escape(text)}</a></li>" for path, text in _LINKS)
    return html_page(
        "tgpu, the GPU scheduler",
        [
            f"<h1>tgpu{version}, the GPU scheduler</h1>",
            f"<p>{escape(_WHAT)}</p>",
            sign_in,
            "<h2>First commands</h2>",
            _typed(_COMMANDS),
            "<h2>From another machine</h2>",
            _typed(_FROM_ELSEWHERE),
            f"<h2>Here</h2><ul>{links}</ul>",
        ],
    )


def start_policy(page: str) -> str:
    """The Content-Security-Policy of this very page: its own style and nothing else."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


def _typed(commands: tuple[tuple[str, str], ...]) -> str:
    widest = max(len(command) for command, _ in commands)
    lines = (f"{escape(command.ljust(widest))}   # {escape(what)}" for command, what in commands)
    return f"<pre>{chr(10).join(lines)}</pre>"
