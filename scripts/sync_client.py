"""Makes the synchronous client of the asynchronous one: `scripts/sync_client.py FROM TO`.

Run by the build (hatch_build.py) and by make. Standard library only: nothing is there yet.
"""

import re
import sys
from pathlib import Path

_HEAD = '''"""The client for commands and scripts: `Client`, as `AsyncClient` without an event loop.

Made by the build from {source} (scripts/sync_client.py): change it there.
"""'''
# In this order. What is left of the other colour after them is an error.
_RULES = (
    (r'\A""".*?"""', ""),  # its head is above
    (r"await asyncio\.to_thread\(([\w.]+), ", r"\1("),  # whoever calls may wait
    (r"asyncio\.sleep", "time.sleep"),
    (r"import asyncio", "import time"),
    (r"\basync (def|with|for) ", r"\1 "),
    (r"\bawait ", ""),
    (r"AsyncGenerator\[(\w+), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync([A-Z]\w+)", r"\1"),
    (r"\b__a(enter|exit)__", r"__\1__"),
    (r"\bcontextlib\.asynccontextmanager", "contextlib.contextmanager"),
    (r"\bcontextlib\.aclosing", "contextlib.closing"),
    (r"\.a(close|read|iter_bytes)\(", r".\1("),
    ("for one event loop", "safe to share between threads"),
)
_OTHER_COLOUR = re.compile(r".*([Aa]sync|\bawait\b|\b__a(enter|exit|iter|next)__|event loop).*")


def translate(code: str, source: str) -> str:
    """The synchronous twin of `code`; ValueError where a rule for something in it is missing."""
    for pattern, replacement in _RULES:
        code = re.sub(pattern, replacement, code, flags=re.DOTALL)
    if left := _OTHER_COLOUR.search(code):
        raise ValueError(f"{source}: no rule makes this synchronous: {left[0].strip()}")
    return _HEAD.format(source=source) + code


def main(source: Path, made: Path) -> None:
    code = source.read_text(encoding="utf-8")
    made.write_text(translate(code, source.name), encoding="utf-8")


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except ValueError as error:
        sys.exit(str(error))
