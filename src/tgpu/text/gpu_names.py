"""What a GPU is called: the name of its node and its index there, as "b/3". Nowhere else are such
names read or written. A bare index means the one node that jobs run on, where there is only one.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

GpuName = tuple[str, int]  # node and index
GpuChoice = int | GpuName  # as people say it: a bare index, or with its node

MOST_GPUS: Final = 4096  # that one text may name: more is a slip of the finger
# A node's name is the rule of `service/hardware/agents.py`: it has no slash.
_PART: Final = re.compile(r"\s*(?:([A-Za-z0-9_][^/,\s]*)/)?([0-9]{1,6})\s*(?:-\s*([0-9]{1,6})\s*)?")
GPU_REMEDY: Final = 'must be an index like 3, or with several nodes a name like "b/3"'
FORM: Final = "0-3 or 0,2, with several nodes b/0-3"


def gpu_name(node: str, index: int) -> str:
    return f"{node}/{index}"


def read_gpu(text: str) -> GpuChoice:
    """One GPU: "3" or "b/3". ValueError says what may stand there."""
    match = _PART.fullmatch(text)
    if match is None or match[3]:
        raise ValueError(f"{text!r} is not a GPU: write an index like 3, or with its node b/3")
    return _choice(match[1], int(match[2]))


def read_gpus(text: str) -> list[GpuChoice]:
    """Several: "0-2,5" or "a/0-1,b/3", each once and in order."""
    found: dict[GpuChoice, None] = {}
    for part in text.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} are not GPU indexes: write them like {FORM}")
        low, high = int(match[2]), int(match[3] or match[2])
        if low > high:
            raise ValueError(f"GPUs {text!r}: {low} is above {high}; write {high}-{low}")
        if high - low >= MOST_GPUS or len(found) > MOST_GPUS:
            raise ValueError(f"{text!r} has more than {MOST_GPUS} GPUs")
        found.update({_choice(match[1], index): None for index in range(low, high + 1)})
    if len(found) > MOST_GPUS:
        raise ValueError(f"{text!r} has more than {MOST_GPUS} GPUs")
    return in_order(found)


def is_gpus(text: str) -> bool:
    """Whether it looks like GPUs, whatever they are."""
    return all(_PART.fullmatch(part) for part in text.split(","))


def in_order(choices: Iterable[GpuChoice]) -> list[GpuChoice]:
    """Bare ones first, then by node and index."""
    return sorted(choices, key=lambda c: ("", c) if isinstance(c, int) else c)


def as_word(choice: GpuChoice) -> int | str:
    """As JSON has it: 3, or "b/3"."""
    return choice if isinstance(choice, int) else gpu_name(*choice)


def choices_text(choices: Iterable[GpuChoice]) -> str:
    """ "0-2,5" of bare ones, "a/0-1,b/3" of others: what `read_gpus` reads."""
    by_node: dict[str, list[int]] = {}
    for choice in choices:
        node, index = ("", choice) if isinstance(choice, int) else choice
        by_node.setdefault(node, []).append(index)
    parts = []
    for node, indexes in sorted(by_node.items()):
        ranges = index_ranges(indexes)
        parts.append(",".join(f"{node}/{one}" for one in ranges.split(",")) if node else ranges)
    return ",".join(parts)


def names_text(names: Iterable[GpuName], *, several_nodes: bool) -> str:
    """GPUs that somebody has, for people: bare while there is one node to think of."""
    named = list(names)
    if several_nodes or len({node for node, _ in named}) > 1:
        return choices_text(named)
    return index_ranges(index for _, index in named)


def words_text(words: Sequence[int | str]) -> str:
    """As JSON has them, in ranges: 0, 1, "b/0" is "0-1,b/0"."""
    bare = [word for word in words if isinstance(word, int)]
    named = [word for word in words if isinstance(word, str)]
    return ",".join(filter(None, (index_ranges(bare), compact_text(named))))


def compact_text(names: Iterable[str]) -> str:
    """Names as the service writes them, in ranges: a/0, a/1, b/0 is "a/0-1,b/0"."""
    pairs = (name.rpartition("/") for name in names)
    return choices_text((node, int(index)) for node, _, index in pairs)


def index_ranges(indexes: Iterable[int]) -> str:
    """0, 1, 2, 5 is "0-2,5"."""
    runs: list[list[int]] = []
    for index in sorted(set(indexes)):
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def _choice(node: str | None, index: int) -> GpuChoice:
    return index if node is None else (node, index)
