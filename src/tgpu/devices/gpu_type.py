"""The short name of a GPU ("A100"), which jobs ask for, from its product name."""

import re

_MAKER_WORDS = frozenset({"NVIDIA", "TESLA", "QUADRO", "GEFORCE", "GRID", "GPU"})
# Families whose model is a bare number or letter that means nothing without them.
_FAMILIES = frozenset({"RTX", "GTX", "GT", "TITAN", "CMP"})
# Words after the model that name another chip. Memory size, bus and cooling do not: a job that
# needs 80 GB asks for memory, not for "A100-SXM4-80GB".
_CHIP_WORDS = frozenset({"TI", "SUPER", "D", "SFF", "ADA", "LAPTOP"})

UNKNOWN_TYPE = "unknown"


def short_type(product_name: str) -> str:
    """ "NVIDIA A100-SXM4-80GB" is an "A100", "NVIDIA GeForce RTX 4090" an "RTX4090"."""
    words = _words(product_name)
    if not words:
        return UNKNOWN_TYPE
    model, rest = _model(words)
    return model + "".join(word for word in rest if word.upper() in _CHIP_WORDS)


def _words(product_name: str) -> list[str]:
    without_brackets = re.sub(r"\(.*?\)", " ", product_name)
    words = re.findall(r"[A-Za-z0-9.]+", without_brackets)
    return [word for word in words if word.upper() not in _MAKER_WORDS]


def _model(words: list[str]) -> tuple[str, list[str]]:
    """The model's own word or words joined, and the words after it."""
    family = words[0]
    if family.upper() not in _FAMILIES or len(words) == 1:
        return family, words[1:]
    if re.fullmatch(r"A\d+", words[1]):  # "RTX A6000" is known as A6000
        return words[1], words[2:]
    if words[1].upper() == "PRO" and len(words) > 2:  # "RTX PRO 6000"
        return family + words[1] + words[2], words[3:]
    return family + words[1], words[2:]
