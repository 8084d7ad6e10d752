"""Amounts of bytes as people write and read them: 40G, 1.5 KiB."""

import re
from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MIB: Final = {"M": 1, "G": 1024, "T": 1024 * 1024}
_SIZE: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([MGT])(?:I?B)?", re.IGNORECASE)


def parse_mebibytes(text: str) -> int:
    """Mebibytes; ValueError says what to write instead."""
    from decimal import Decimal  # not for those who only write sizes, as each job's runner does

    match = _SIZE.fullmatch(text.strip())
    if match is None:
        number = text.strip()
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?", number):
            raise ValueError(f"{text!r} has no unit: write {number}G or {number}M")
        raise ValueError(f"{text!r} is not a size: write one like 500M, 40G or 1.5T")
    size = Decimal(match[1]) * _MIB[match[2].upper()]
    if size != int(size):
        raise ValueError(f"{text!r} is not a whole number of MiB: write it in M")
    if size == 0:
        raise ValueError(f"{text!r} must be more than 0; leave the option out instead")
    return int(size)


def mebibytes_text(mebibytes: int) -> str:
    """As it could be typed, rounded: 500M, 1.5G."""
    if mebibytes < _MIB["G"]:
        return f"{mebibytes}M"
    return f"{mebibytes / _MIB['G']:.1f}".removesuffix(".0") + "G"


def exact_size_text(mebibytes: int) -> str:
    """As it could be typed, never rounded: 40G, 500M."""
    whole, rest = divmod(mebibytes, _MIB["G"])
    return f"{mebibytes}M" if rest or not whole else f"{whole}G"


def bytes_text(size: float, digits: str = ".1f") -> str:
    """1536 is 1.5 KiB."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} B" if unit == "B" else f"{size:{digits}} {unit}"
