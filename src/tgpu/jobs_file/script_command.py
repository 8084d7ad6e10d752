"""The command that runs a script of the jobs file, or of `tgpu add`. Pure."""

import re
from collections.abc import Sequence
from typing import Final

# Stands in a command for the GPUs that the job will get; see `engines/placing.py`.
ASSIGNED: Final = "{TGPU_GPUS}"
_CUDA: Final = "--cuda"
_DECLARED: Final = re.compile(r"""['"]--cuda['"]([^)]*)""")
_FLAG: Final = re.compile(r"store_true|store_false|store_const|BooleanOptional|is_flag|bool\b")
_DEVICES: Final = re.compile(r"(cuda:)?[0-9]+(,[0-9]+)*")


def script_command(
    script: str, args: Sequence[str], source: str = "", *, in_environment: bool = False
) -> list[str]:
    """How to run it, with `--cuda` set to the GPUs it will get where the script takes that.

    `source` is the script's text, or nothing where it cannot be read. In an environment of its
    own Python is called python; outside, only python3 is sure to be there.
    """
    python = "python" if in_environment else "python3"
    interpreter = {"py": [python], "sh": ["bash"]}.get(script.rpartition(".")[2].lower(), [])
    return [*interpreter, script, *_with_cuda(args, source)]


def takes_cuda(source: str) -> bool:
    """Whether a script declares an option --cuda that has a value."""
    found = _DECLARED.search(source)
    return found is not None and not _FLAG.search(found[1])


def _with_cuda(args: Sequence[str], source: str) -> list[str]:
    declared = takes_cuda(source)
    made: list[str] = []
    seen = False
    words = list(args)
    while words:
        word = words.pop(0)
        if word.startswith(f"{_CUDA}="):
            seen, word = True, f"{_CUDA}={ASSIGNED}"
        elif word == _CUDA:
            seen = True
            has_value = bool(words) and _DEVICES.fullmatch(words[0]) is not None
            if has_value:
                words.pop(0)
            if has_value or declared:
                made.append(word)
                word = ASSIGNED
        made.append(word)
    return made if seen or not declared else [*made, _CUDA, ASSIGNED]
