import json

import pytest

from tgpu.engines.local.launch_shape import read_launch

GOOD = {"argv": ["true"], "cwd": "/", "env": {"A": "b"}}
HEAD = ["launch", "j", 1, 100, None]


def line(command: object) -> bytes:
    return f"{json.dumps(HEAD)}\t{json.dumps(command)}\n".encode()


def test_a_launch_is_its_head_and_its_command():
    assert read_launch(line(GOOD)) == (HEAD, GOOD)


def test_all_that_a_launch_may_have_is_read():
    more = {
        "user": [1000, 1000, [1000, 27]],
        "workers": [{"RANK": "0"}, {"RANK": "1"}],
        "limits": {"memory_bytes": 1, "cpu_seconds": None},
        "session": "s",
        "multiplexer": "tmux",
        "fence": {"opened": [[195, 0]], "shut": [[195, 0, 253]], "required": True},
    }
    assert read_launch(line(GOOD | more))[1] == GOOD | more
    assert read_launch(line(GOOD | {"user": [1000, None, []]}))


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (5, "not a JSON object"),
        ({}, "argv"),
        (GOOD | {"argv": "true"}, "argv"),
        (GOOD | {"argv": ["true", 1]}, "argv"),
        (GOOD | {"cwd": None}, "cwd"),
        (GOOD | {"env": {"A": 1}}, "env"),
        (GOOD | {"user": [-1, 0, []]}, "user"),
        (GOOD | {"user": [True, 0, []]}, "user"),
        (GOOD | {"user": None}, "user"),
        (GOOD | {"workers": []}, "workers"),
        (GOOD | {"workers": [{"RANK": 0}]}, "workers"),
        (GOOD | {"limits": {"open_files": -1}}, "limits"),
        (GOOD | {"limits": {"open_files": 2**70}}, "limits"),
        (GOOD | {"session": 1}, "session"),
        (GOOD | {"fence": {"opened": [], "shut": [[195, 0]], "required": False}}, "fence"),
        (GOOD | {"fence": {"opened": [[195, -1]], "shut": [], "required": False}}, "fence"),
        (GOOD | {"fence": {"opened": [], "shut": []}}, "fence"),
    ],
)
def test_what_is_of_another_kind_is_named(command, named):
    with pytest.raises(ValueError, match=f"cannot be read: .*{named}"):
        read_launch(line(command))


def test_a_command_that_is_no_json_is_told():
    with pytest.raises(ValueError, match=r"not JSON$"):
        read_launch(b'["launch"]\t{\n')
