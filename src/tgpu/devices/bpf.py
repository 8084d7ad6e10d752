"""The system call bpf(2), as far as GPU isolation needs it. No compiler, no library."""

import ctypes
import errno
import os
import platform
import struct
from typing import Final

# Python has no name for the call, and its number differs from one kind of machine to another.
_CALLS: Final = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_LOAD, _ATTACH = 5, 8  # commands: BPF_PROG_LOAD, BPF_PROG_ATTACH
_PROGRAM_TYPE: Final = 15  # BPF_PROG_TYPE_CGROUP_DEVICE
_ATTACH_TYPE: Final = 6  # BPF_CGROUP_DEVICE
_ALLOW_MULTI: Final = 2  # others of its kind above and below it stay, and all of them must agree
_INSTRUCTION_BYTES: Final = 8
_LICENSE: Final = b"MIT"


def load_program(program: bytes) -> int:
    """A descriptor of it. Raises OSError where the kernel does not let us, or has no such thing."""
    # Both must live until the call returns: the kernel reads them by their addresses.
    code, license_name = ctypes.create_string_buffer(program), ctypes.create_string_buffer(_LICENSE)
    count = len(program) // _INSTRUCTION_BYTES
    addresses = ctypes.addressof(code), ctypes.addressof(license_name)
    # No log of the verifier: level, size and address are 0.
    return _bpf(_LOAD, struct.pack("=IIQQIIQ", _PROGRAM_TYPE, count, *addresses, 0, 0, 0))


def attach_program(program: int, group: int) -> None:
    """To a control group, both by their descriptors: it stays there until the group is gone."""
    _bpf(_ATTACH, struct.pack("=IIII", group, program, _ATTACH_TYPE, _ALLOW_MULTI))


def _bpf(command: int, attributes: bytes) -> int:
    number = _CALLS.get(platform.machine())
    if number is None:
        raise OSError(
            errno.ENOSYS, f"the number of bpf(2) on {platform.machine()} is not known here"
        )
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    result = library.syscall(
        ctypes.c_long(number), ctypes.c_int(command), buffer, ctypes.c_uint(len(attributes))
    )
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return int(result)
