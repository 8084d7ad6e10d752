"""Blocks devices with the `devices` controller of control groups version 1.

Its lists know single devices and whole drivers, and no exception from an exception. So where
everything is allowed the devices to shut are denied one by one; and where a group above allows a
list of devices only, as in a container, a whole driver in it is replaced by single ones.
"""

import errno
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tgpu.devices.device_program import Device, DeviceRange

_EVERYTHING: Final = "a *:* rwm"
_ANY_DEVICE: Final = "*"
_MINORS: Final = 256  # as many as drivers have that were made before there could be more
_RULE: Final = re.compile(r"([abc]) (\d+|\*):(\d+|\*) [rwm]+")


def shut_devices(group: Path, opened: Sequence[Device], shut: Sequence[DeviceRange]) -> None:
    """Raises OSError where that cannot be done, and the group must not be used then."""
    rules = (group / "devices.list").read_text().splitlines()
    if _EVERYTHING in rules:
        for each in shut:
            for minor in each.minors_without(opened):
                _write(group / "devices.deny", each.major, str(minor))
        return
    for rule in rules:
        _narrow(group, rule, opened, shut)


def _narrow(group: Path, rule: str, opened: Sequence[Device], shut: Sequence[DeviceRange]) -> None:
    found = _RULE.fullmatch(rule.strip())
    if found is None or found[1] == "b":
        return
    if found[2] == _ANY_DEVICE:
        raise OSError(errno.EOPNOTSUPP, f"the rule {rule!r} of the group above cannot be narrowed")
    major = int(found[2])
    ours = [each for each in shut if each.major == major]
    if not ours:
        return
    closed = {minor for each in ours for minor in each.minors_without(opened)}
    if found[3] != _ANY_DEVICE:
        if int(found[3]) in closed:
            _write(group / "devices.deny", major, found[3])
        return
    _write(group / "devices.deny", major, _ANY_DEVICE)
    for minor in range(max(_MINORS, *(each.last + 1 for each in ours))):
        if minor not in closed:
            _write(group / "devices.allow", major, str(minor))


def _write(file: Path, major: int, minor: str) -> None:
    file.write_text(f"c {major}:{minor} rwm")
