"""The eBPF program that decides which devices the processes of a control group may open.

Version 2 of control groups has no file for that: it asks a program of type CGROUP_DEVICE about each
open and each mknod, which answers 1 to let it through. Ours is short enough to be put together
here, instruction by instruction (Documentation/bpf/standardization/instruction-set.rst).
"""

import struct
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple


class Device(NamedTuple):
    """A character device by its numbers: a name can be given anew with mknod, a number cannot."""

    major: int
    minor: int


class DeviceRange(NamedTuple):
    """All devices of a driver whose second number is one of these."""

    major: int
    first: int
    last: int

    def minors_without(self, opened: Sequence[Device]) -> list[int]:
        mine = {device.minor for device in opened if device.major == self.major}
        return [minor for minor in range(self.first, self.last + 1) if minor not in mine]


# What the kernel hands over in register 1 (struct bpf_cgroup_dev_ctx): three words of 32 bits.
_ACCESS_TYPE, _MAJOR, _MINOR = 0, 4, 8
_CHARACTER_DEVICE: Final = 2  # in the lower half of the first; the upper half says what is done
_LOAD_WORD, _AND, _MOVE, _EXIT = 0x61, 0x57, 0xB7, 0x95
_JUMP_IF_EQUAL, _JUMP_UNLESS_EQUAL, _JUMP_IF_LESS, _JUMP_IF_GREATER = 0x15, 0x55, 0xA5, 0x25


def device_program(opened: Sequence[Device], shut: Sequence[DeviceRange]) -> bytes:
    """Refuses character devices in `shut` that are not in `opened`; lets everything else through.

    Each rule jumps over itself where it does not fit, so that no jump is far.
    """
    return b"".join(_instructions(opened, shut))


def _instructions(opened: Sequence[Device], shut: Sequence[DeviceRange]) -> Iterator[bytes]:
    yield _instruction(_LOAD_WORD, 2, 1, _ACCESS_TYPE)
    yield _instruction(_LOAD_WORD, 3, 1, _MAJOR)
    yield _instruction(_LOAD_WORD, 4, 1, _MINOR)
    yield _instruction(_AND, 2, value=0xFFFF)
    yield _jump(_JUMP_IF_EQUAL, 2, _CHARACTER_DEVICE, 2)
    yield from _answer(1)
    for device in opened:
        yield _jump(_JUMP_UNLESS_EQUAL, 3, device.major, 3)
        yield _jump(_JUMP_UNLESS_EQUAL, 4, device.minor, 2)
        yield from _answer(1)
    for each in shut:
        yield _jump(_JUMP_UNLESS_EQUAL, 3, each.major, 4)
        yield _jump(_JUMP_IF_LESS, 4, each.first, 3)
        yield _jump(_JUMP_IF_GREATER, 4, each.last, 2)
        yield from _answer(0)
    yield from _answer(1)


def _answer(value: int) -> Iterator[bytes]:
    yield _instruction(_MOVE, 0, value=value)
    yield _instruction(_EXIT, 0)


def _jump(code: int, register: int, value: int, over: int) -> bytes:
    return _instruction(code, register, offset=over, value=value)


def _instruction(code: int, to: int, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    # On a little-endian machine the first register is the lower half of its byte.
    registers = source << 4 | to if sys.byteorder == "little" else to << 4 | source
    return struct.pack("=BBhi", code, registers, offset, value)
