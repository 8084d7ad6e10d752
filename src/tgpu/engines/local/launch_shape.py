"""Validates a launch before it is passed to a runner.

A runner that died of a launch would be given the next one's share of the blame, and its stack trace
would stand in the supervisor's log in place of a sentence about the job.
"""

import json
from collections.abc import Callable
from typing import Any, Final


def read_launch(line: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The head and the command of a launch. Raises ValueError with the sentence to report."""
    head, _, text = line.partition(b"\t")
    try:
        command = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError("the launch cannot be read: its command is not JSON") from None
    if not isinstance(command, dict):
        raise ValueError("the launch cannot be read: its command is not a JSON object")
    for name, is_right in _NEEDED.items():
        if not is_right(command.get(name)):
            raise ValueError(f"the launch cannot be read: its {name} is missing or of another kind")
    for name, is_right in _OPTIONAL.items():
        if name in command and not is_right(command[name]):
            raise ValueError(f"the launch cannot be read: its {name} is of another kind")
    return json.loads(head), command


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63


def _are_words(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(word, str) for word in value)


def _are_variables(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _are_workers(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_are_variables, value))


def _are_limits(value: object) -> bool:
    return isinstance(value, dict) and all(
        limit is None or (_is_number(limit) and limit >= 0) for limit in value.values()
    )


def _is_user(value: object) -> bool:
    if not (isinstance(value, list) and len(value) == 3):
        return False
    uid, gid, groups = value
    return (
        _is_id(uid)
        and (gid is None or _is_id(gid))
        and isinstance(groups, list)
        and all(map(_is_id, groups))
    )


def _is_environment(value: object) -> bool:
    return _are_words(value) and len(value) == 2  # type: ignore[arg-type]  # a list by now


def _is_fence(value: object) -> bool:
    return (
        isinstance(value, dict)
        and _are_devices(value.get("opened"), 2)
        and _are_devices(value.get("shut"), 3)
        and isinstance(value.get("required"), bool)
    )


def _are_devices(value: object, numbers: int) -> bool:
    return isinstance(value, list) and all(
        isinstance(each, list) and len(each) == numbers and all(map(_is_device_number, each))
        for each in value
    )


def _is_device_number(value: object) -> bool:
    """The kernel has 12 bits for the first of two, and 20 for the second."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**20


def _is_id(value: object) -> bool:
    """Of a user or group. -1 would leave it as it is: root's."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**32 - 1


_NEEDED: Final[dict[str, Callable[[object], bool]]] = {
    "argv": _are_words,
    "cwd": _is_text,
    "env": _are_variables,
}
_OPTIONAL: Final[dict[str, Callable[[object], bool]]] = {
    "user": _is_user,
    "workers": _are_workers,
    "limits": _are_limits,
    "shown": _are_words,
    "session": _is_text,
    "multiplexer": _is_text,
    "environment": _is_environment,
    "script_folders": _are_words,
    "home": _is_text,
    "log_limit": _is_number,
    "fence": _is_fence,
}
