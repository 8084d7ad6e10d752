"""The program for the kernel, run by an interpreter of the few instructions that it has."""

import os
import struct

import pytest

from tgpu.devices.bpf import load_program
from tgpu.devices.device_program import Device, DeviceRange, device_program
from tgpu.devices.fencing import fence_tree

BLOCK, CHARACTER = 1, 2
MKNOD, READ, WRITE = 1, 2, 4
OWN = [Device(195, 1), Device(235, 21), Device(235, 22)]
SHUT = [DeviceRange(195, 0, 253), *(DeviceRange(235, minor, minor) for minor in (21, 22, 30))]


def run(program: bytes, kind: int, access: int, major: int, minor: int) -> int:
    """What the kernel would answer; every jump must lead to an instruction."""
    context = struct.pack("=III", access << 16 | kind, major, minor)
    instructions = list(struct.iter_unpack("=BBhi", program))
    registers = [0] * 11
    at = 0
    while True:
        code, names, offset, value = instructions[at]
        to = names & 0xF
        at += 1
        match code:
            case 0x61:  # a word of what register 1 points to
                assert names >> 4 == 1
                (registers[to],) = struct.unpack_from("=I", context, offset)
            case 0x57:
                registers[to] &= value
            case 0xB7:
                registers[to] = value
            case 0x15:
                at += offset if registers[to] == value else 0
            case 0x55:
                at += offset if registers[to] != value else 0
            case 0xA5:
                at += offset if registers[to] < value else 0
            case 0x25:
                at += offset if registers[to] > value else 0
            case 0x95:
                return registers[0]
            case _:
                raise AssertionError(f"no instruction of ours: {code:#x}")


@pytest.mark.parametrize("access", [MKNOD, READ, WRITE, READ | WRITE])
@pytest.mark.parametrize(
    ("major", "minor", "is_open"),
    [
        (195, 1, True),  # its own GPU
        (195, 0, False),
        (195, 253, False),
        (195, 254, True),  # nvidia-modeset
        (195, 255, True),  # nvidiactl
        (235, 21, True),  # of its own slice
        (235, 30, False),
        (235, 1, True),
        (1, 1, True),
        (510, 0, True),
    ],
)
def test_only_ones_own_of_what_is_shut_can_be_opened(access, major, minor, is_open):
    assert run(device_program(OWN, SHUT), CHARACTER, access, major, minor) == is_open


def test_disks_are_never_meant():
    assert run(device_program((), SHUT), BLOCK, READ, 195, 0) == 1


def test_a_job_without_gpus_opens_none():
    program = device_program((), SHUT)
    assert [run(program, CHARACTER, READ, 195, minor) for minor in (0, 1, 253)] == [0, 0, 0]
    assert run(program, CHARACTER, READ, 195, 255) == 1


def test_nothing_shut_refuses_nothing():
    assert run(device_program((), ()), CHARACTER, READ, 195, 0) == 1


@pytest.mark.skipif(isinstance(fence_tree(), str), reason=f"{fence_tree()}")
def test_the_kernel_takes_the_largest_that_we_make():
    opened = [Device(195, minor) for minor in range(64)]
    shut = [DeviceRange(195, 0, 253), *(DeviceRange(235, m, m) for m in range(3, 900))]
    os.close(load_program(device_program(opened, shut)))


def test_the_minors_of_a_range_without_ones_own():
    assert DeviceRange(195, 0, 3).minors_without([Device(195, 1), Device(7, 2)]) == [0, 2, 3]
