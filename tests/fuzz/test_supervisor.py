"""Whatever comes over the supervisor's socket: it goes on, and what it runs is none the worse."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.real_service import eventually, is_living
from tgpu.engines.local.door import connect
from tgpu.engines.local.paths import JOBS, LOG
from tgpu.engines.local.protocol import VERSION, LineSplitter, decode, encode, encode_launch

pytestmark = pytest.mark.external

SECONDS: Final = 20.0
BYSTANDER: Final = ("bystander", 1, "0f" * 16)  # a job that runs all the while


class SupervisorBox:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.engine = directory / "engine"
        command = [sys.executable, "-I", "-m", "tgpu.engines.local.supervisor"]
        command += ["--detach", f"--dir={self.engine}", "--idle-seconds=600"]
        subprocess.run(command, check=True, cwd="/", stdin=subprocess.DEVNULL)
        self.pid = self.ask(b"")[0]

    def ask(self, sent: bytes) -> tuple[int, dict[tuple[str, int, str], list[Any]]]:
        """Send it, then ask in a connection of its own: who answers, and what it knows."""
        if sent:
            self.send(sent)
        lines = LineSplitter()
        with connect(str(self.engine)) as sock:
            sock.settimeout(SECONDS)
            sock.sendall(encode("hello", VERSION))
            pid = 0
            while True:
                for line in lines.feed(sock.recv(1 << 16)):
                    what, *fields = decode(line)
                    if what == "hello":
                        pid = fields[1]
                    elif what == "all":
                        return pid, {(seen[0], seen[1], seen[2]): seen for seen in fields[0]}

    def send(self, sent: bytes) -> None:
        with connect(str(self.engine)) as sock:
            sock.settimeout(SECONDS)
            try:
                sock.sendall(sent)
                sock.shutdown(1)
                while sock.recv(1 << 16):
                    pass
            except OSError:  # it does not have to listen to the end
                return

    def phase(self, key: tuple[str, int, str]) -> str | None:
        seen = self.ask(b"")[1].get(key)
        return None if seen is None else str(seen[3])

    def run(self, key: tuple[str, int, str], *argv: str) -> None:
        command: dict[str, object] = {"argv": argv, "cwd": "/", "env": {"PATH": "/usr/bin:/bin"}}
        self.send(encode_launch(key, 300, None, command))

    def tear_down(self) -> None:
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if str(self.engine).encode() in _command_line(pid) and is_living(pid):
                os.kill(pid, signal.SIGKILL)


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SupervisorBox]:
    made = SupervisorBox(tmp_path_factory.mktemp("supervisor"))
    try:
        made.run(BYSTANDER, "sleep", "600")
        eventually(lambda: made.phase(BYSTANDER) == "running", "the bystander to run")
        yield made
        # After all of it, it still does what it is there for.
        made.run(("good", 1, ""), "true")
        eventually(lambda: made.phase(("good", 1, "")) == "exited", "a good job to end")
        assert made.phase(BYSTANDER) == "running"
        made.send(encode("stop", [BYSTANDER], None))
        eventually(lambda: made.phase(BYSTANDER) == "exited", "the bystander to end")
        assert sorted(os.listdir(made.directory)) == ["engine"], "it wrote outside of its directory"
        assert "Traceback" not in (made.engine / LOG).read_text()
        for job_id in os.listdir(made.engine / JOBS):
            assert "/" not in job_id
    finally:
        made.tear_down()


JOB_IDS: Final = st.one_of(
    st.sampled_from(["j1", "j2", "../up", "/tmp/x", "", ".", "a/b", "\0", "x" * 300, ".hidden"]),
    st.text(max_size=12),
)
ODD: Final = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=9)
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
IDENTITIES: Final = st.sampled_from(["", "ab" * 16, "../x", "AB", "\0", "f" * 65])
KEYS: Final = st.tuples(JOB_IDS | ODD, st.integers(0, 3) | ODD, IDENTITIES | ODD)
# Never a program that does anything: what is generated here is really started.
ARGV: Final = st.one_of(
    st.lists(st.sampled_from(["/bin/true", "true", "/nonexistent", "", "\0"]), max_size=3),
    st.just(["true", "x" * 200_000]),
    ODD.filter(lambda value: not isinstance(value, list | str)),
)
COMMANDS: Final = st.fixed_dictionaries(
    {},
    optional={
        "argv": ARGV,
        "cwd": st.sampled_from(["/", "/nonexistent", "relative", "", "\0"]) | ODD,
        "env": st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3) | ODD,
        "user": st.tuples(st.just(65534), st.just(65534), st.just([])) | ODD,
        "workers": st.lists(st.just({}), max_size=2) | ODD,
        "limits": st.dictionaries(
            st.sampled_from(["memory_bytes", "cpu_seconds", "open_files", "x"]),
            st.sampled_from([10**9, 2**70, "x"]),
            max_size=2,
        )
        | ODD,
        "fence": st.fixed_dictionaries(
            {"opened": st.just([]), "shut": st.just([[1, 200, 201]]), "required": st.booleans()}
        )
        | ODD,
        "new_field": ODD,
    },
)
NOT_BYSTANDER: Final = KEYS.filter(lambda key: key[0] != BYSTANDER[0])


def _launch(key: object, grace: object, limit: object, command: object) -> bytes:
    head = json.dumps(["launch", *key, grace, limit])  # type: ignore[misc]  # a tuple of anything
    return f"{head}\t{json.dumps(command)}\n".encode()


MESSAGES: Final = st.one_of(
    st.binary(max_size=60).filter(lambda sent: b"quit" not in sent).map(lambda sent: sent + b"\n"),
    st.builds(lambda *fields: encode(*fields), ODD, ODD, ODD),
    st.builds(
        lambda keys, notice: encode("stop", keys, notice),
        st.lists(NOT_BYSTANDER, max_size=3) | ODD,
        ODD,
    ),
    st.builds(
        lambda keys, paused: encode("pause", keys, paused),
        st.lists(NOT_BYSTANDER, max_size=3) | ODD,
        st.booleans() | ODD,
    ),
    # None above 0, or whatever is sent behind it would be passed over.
    st.builds(
        lambda epoch: encode("epoch", epoch),
        st.integers(max_value=0) | ODD.filter(lambda value: not isinstance(value, int)),
    ),
    st.builds(lambda keys: encode("forget", keys), st.lists(NOT_BYSTANDER, max_size=3) | ODD),
    st.builds(
        lambda what, request: encode(what, request),
        st.sampled_from(["observe", "sync", "hello"]),
        ODD,
    ),
    st.builds(
        _launch,
        NOT_BYSTANDER,
        st.integers(0, 500) | ODD,
        st.none() | st.integers(1, 500) | ODD,
        COMMANDS,
    ),
)


@given(sent=st.lists(MESSAGES, min_size=1, max_size=5))
@settings(database=None)
def test_nothing_that_is_sent_ends_the_supervisor_or_a_job(
    box: SupervisorBox, sent: list[bytes]
) -> None:
    pid, known = box.ask(b"".join(sent))
    assert pid == box.pid
    assert known[BYSTANDER][3] == "running"


@given(key=st.tuples(st.uuids().map(str), st.just(1), st.just("ab" * 16)), command=COMMANDS)
@settings(database=None)
def test_every_launch_that_is_taken_comes_to_an_end(
    box: SupervisorBox, key: tuple[str, int, str], command: dict[str, object]
) -> None:
    box.send(_launch(key, 100, None, command))
    eventually(lambda: box.phase(key) in ("exited", "not_started", "lost"), f"the end of {command}")
    assert box.ask(b"")[0] == box.pid
