"""What a job sees and what is known of its end, when nothing goes wrong around it."""

import json
import os

import pytest

from tests.integration.engines.box import Box, until_true
from tgpu.engines.api import Phase


@pytest.mark.parametrize(
    ("script", "code", "signal"),
    [("exit 0", 0, None), ("exit 3", 3, None), ("kill -9 $$", 137, 9), ("kill -15 $$", 143, 15)],
    ids=["zero", "three", "killed", "terminated"],
)
async def test_the_exit_code_is_the_one_a_shell_shows(
    box: Box, script: str, code: int, signal: int | None
) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", script)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.signal, end.cause) == (Phase.EXITED, code, signal, None)


async def test_output_and_errors_go_to_files_of_their_own(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "echo out; echo err >&2")])
    await box.end(engine, "j")
    assert (box.text("j"), box.text("j", "stderr.log")) == ("out\n", "err\n")


async def test_a_job_gets_the_environment_of_its_launch_and_where_its_logs_are(box: Box) -> None:
    engine = await box.engine()
    launch = box.launch("j", "env", env={"CUDA_VISIBLE_DEVICES": "1,3", "ODD": "tab\there"})
    await engine.launch([launch])
    await box.end(engine, "j")
    logs = {"TGPU_LOG_DIR": engine.log_dir(launch.key)}
    given = dict(line.split("=", 1) for line in box.text("j").splitlines())
    assert given == {**launch.env, **logs}


async def test_a_job_gets_bytes_that_are_not_utf8_as_they_are(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "printf", "%s", os.fsdecode(b"\xff\xfe"))])
    await box.end(engine, "j")
    log = box.directory / "jobs/j/1/stdout.log"
    assert log.read_bytes() == b"\xff\xfe"


async def test_a_job_runs_in_its_directory(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "pwd")])
    await box.end(engine, "j")
    assert box.text("j") == f"{box.work}\n"


async def test_a_job_has_no_descriptors_but_the_standard_ones_and_leads_its_session(
    box: Box,
) -> None:
    engine = await box.engine()
    script = (
        "import os; fds = sorted(map(int, os.listdir('/proc/self/fd')))[:-1];"
        "print(fds, os.getsid(0) == os.getpid(), os.readlink('/proc/self/fd/0'))"
    )
    await engine.launch([box.python("j", script)])
    await box.end(engine, "j")
    assert box.text("j") == "[0, 1, 2] True /dev/null\n"


async def test_a_job_ignores_and_blocks_no_signal(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "grep", "-E", "Sig(Blk|Ign)", "/proc/self/status")])
    await box.end(engine, "j")
    # 32 and 33 belong to the C library; nobody but it can change them.
    internal = 1 << 31 | 1 << 32
    masks = [int(line.split()[1], 16) & ~internal for line in box.text("j").splitlines()]
    assert masks == [0, 0]


async def test_a_missing_command_is_an_exit_with_127_that_its_log_explains(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "no-such-command")])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 127)
    assert box.text("j", "stderr.log") == "no-such-command: command not found\n"


async def test_a_command_that_may_not_be_run_is_an_exit_with_126(box: Box) -> None:
    (box.work / "script").write_text("#!/bin/sh\n")
    engine = await box.engine()
    await engine.launch([box.launch("j", "./script")])
    end = await box.end(engine, "j")
    assert (end.exit_code, box.text("j", "stderr.log")) == (126, "./script: permission denied\n")


async def test_a_missing_directory_means_not_started_for_good(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "true", cwd="/no/such/place")])
    end = await box.end(engine, "j")
    assert (end.phase, end.cause) == (Phase.NOT_STARTED, "no such directory: /no/such/place")
    assert not end.retry


async def test_an_argument_that_cannot_be_passed_means_not_started(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "echo", "a\0b")])
    end = await box.end(engine, "j")
    assert end.phase is Phase.NOT_STARTED
    assert "null byte" in str(end.cause)


async def test_a_large_environment_arrives_whole(box: Box) -> None:
    engine = await box.engine()
    large = {f"V{number}": "x" * 100_000 for number in range(8)}
    await engine.launch([box.launch("j", "sh", "-c", "env | wc -c", env=large)])
    end = await box.end(engine, "j")
    assert end.exit_code == 0
    assert int(box.text("j")) > 800_000


async def test_the_spec_on_disk_names_variables_without_their_values(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "true", env={"TOKEN": "hush"}, time_limit_ms=60_000)])
    await box.end(engine, "j")
    spec = json.loads(box.text("j", "attempt.jsonl").splitlines()[0])["spec"]
    assert (spec["argv"], spec["time_limit_ms"]) == (["true"], 60_000)
    assert "TOKEN" in spec["env"]
    for file in box.directory.rglob("*"):
        assert not file.is_file() or b"hush" not in file.read_bytes()


async def test_nobody_else_may_read_what_a_job_leaves(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.launch("j", "true")])
    await box.end(engine, "j")
    modes = {
        path.name: path.stat().st_mode & 0o077
        for path in [box.directory, *box.directory.rglob("*")]
    }
    assert set(modes.values()) == {0}, modes


async def test_usage_counts_the_processor_time_of_the_job(box: Box) -> None:
    engine = await box.engine()
    script = "import time\nwhile time.process_time() < 0.2: pass"
    await engine.launch([box.python("j", script)])
    end = await box.end(engine, "j")
    assert 150 <= end.usage.user_cpu_ms + end.usage.system_cpu_ms < 2_000
    assert end.usage.max_rss_kib > 1_000


async def test_launching_the_same_attempt_again_runs_it_once(box: Box) -> None:
    engine = await box.engine()
    launch = box.shell("j", "echo j >> $WORK/ran")
    await engine.launch([launch, launch])
    await engine.launch([launch])
    await box.end(engine, "j")
    await engine.launch([launch])
    assert (await box.end(engine, "j")).exit_code == 0
    assert box.lines("ran") == ["j"]


async def test_a_forgotten_attempt_launched_again_does_not_run_and_its_end_is_known(
    box: Box,
) -> None:
    engine = await box.engine()
    launch = box.shell("j", "echo j >> $WORK/ran; exit 5")
    await engine.launch([launch])
    await box.end(engine, "j")
    await engine.forget([launch.key])
    assert await engine.observe() == []
    await engine.launch([launch])
    assert (await box.end(engine, "j")).exit_code == 5
    assert box.lines("ran") == ["j"]


async def test_many_attempts_at_once_all_run(box: Box) -> None:
    engine = await box.engine()
    names = [f"j{number}" for number in range(60)]
    await engine.launch([box.shell(name, f"echo {name} >> $WORK/ran") for name in names])
    for name in names:
        assert (await box.end(engine, name)).exit_code == 0
    assert sorted(box.lines("ran")) == sorted(names)


async def test_a_data_directory_with_a_long_path_works(box: Box) -> None:
    box.directory = box.directory / ("x" * 120)
    engine = await box.engine()
    await engine.launch([box.launch("j", "true")])
    assert (await box.end(engine, "j")).exit_code == 0


async def test_the_supervisor_ends_itself_when_nobody_needs_it(box: Box) -> None:
    engine = await box.engine(idle_seconds=0.2)
    await engine.launch([box.launch("j", "true")])
    await box.end(engine, "j")
    await engine.close()
    await until_true(lambda: not box.processes(), "the supervisor and its runners to end")
    assert not (box.directory / "supervisor.sock").exists()


async def test_the_supervisor_stays_while_a_job_runs(box: Box) -> None:
    engine = await box.engine(idle_seconds=0.05)
    await engine.launch([box.shell("j", "while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 6")])
    await box.running(engine, "j")
    supervisor = engine.supervisor_pid
    await engine.close()
    (box.work / "go").touch()
    await until_true(lambda: '"exit"' in box.text("j", "attempt.jsonl"), "the exit record")
    again = await box.engine()
    assert (await box.end(again, "j")).exit_code == 6
    assert supervisor is not None
