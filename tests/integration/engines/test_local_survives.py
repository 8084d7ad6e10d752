"""Jobs go on, are found again and never run twice, whichever of our processes is killed."""

import asyncio
import json
import random
from pathlib import Path

import pytest

from tests.integration.engines.box import Box, kill, kill_and_wait, until_true
from tgpu.engines.api import AttemptKey, EngineUnavailable, Launch, Phase
from tgpu.engines.local.engine import LocalEngine

_WAITS = "echo $$ >> $WORK/ran; while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 9"


async def _waiting_job(box: Box, engine: LocalEngine, **options: int) -> int:
    """A job that ends with 9 as soon as the file `go` is there; its pid."""
    await engine.launch([box.shell("j", _WAITS, **options)])
    await until_true(lambda: box.lines("ran"), "the job to run")
    running = await box.running(engine, "j")
    assert running.pid is not None
    return running.pid


def _supervisor(engine: LocalEngine) -> int:
    assert engine.supervisor_pid is not None
    return engine.supervisor_pid


async def test_a_job_goes_on_when_the_supervisor_is_killed(box: Box) -> None:
    engine = await box.engine()
    pid = await _waiting_job(box, engine)
    first = _supervisor(engine)
    await kill_and_wait(first)
    again = await box.running(engine, "j")
    assert again.pid == pid
    assert _supervisor(engine) != first
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, len(box.lines("ran"))) == (Phase.EXITED, 9, 1)


async def test_an_exit_while_nobody_was_there_is_found_afterwards(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    supervisor = _supervisor(engine)
    await engine.close()
    await kill_and_wait(supervisor)
    (box.work / "go").touch()
    await until_true(lambda: '"exit"' in box.text("j", "attempt.jsonl"), "the exit record")
    await until_true(lambda: not box.processes(), "the last runner to end")
    end = await box.end(await box.engine(), "j")
    assert (end.phase, end.exit_code, end.started_at is None) == (Phase.EXITED, 9, False)


async def test_changes_tells_everything_after_the_supervisor_was_replaced(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    changes = engine.changes()
    await anext(changes)
    await kill_and_wait(_supervisor(engine))
    async with asyncio.timeout(20):
        batch = await anext(changes)
    assert [(seen.key.job_id, seen.phase) for seen in batch] == [("j", Phase.RUNNING)]


async def test_a_job_goes_on_when_its_runner_is_killed(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    await kill_and_wait(box.runner_of("j"))
    assert (await box.running(engine, "j")).phase is Phase.RUNNING
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.cause) == (Phase.EXITED, 9, None)


async def test_of_two_jobs_without_runners_the_end_of_one_leaves_the_other_alone(box: Box) -> None:
    engine = await box.engine()
    detached = "setsid sleep 600 >/dev/null 2>&1 & echo x >> $WORK/ran; "
    short = detached + "while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 9"
    await engine.launch([box.shell("short", short), box.shell("long", detached + "sleep 600")])
    await until_true(lambda: len(box.lines("ran")) == 2, "both jobs to run")
    await kill_and_wait(box.runner_of("short"), box.runner_of("long"))
    (box.work / "go").touch()
    assert (await box.end(engine, "short")).exit_code == 9
    assert (await box.running(engine, "long")).phase is Phase.RUNNING
    await engine.stop([AttemptKey("long", 1)])
    assert (await box.end(engine, "long")).cause == "stopped"
    assert box.job_processes() == {}


async def test_a_job_whose_runner_was_killed_can_be_stopped_whole(box: Box) -> None:
    engine = await box.engine()
    script = "setsid sleep 600 >/dev/null 2>&1 & echo x >> $WORK/ran; sleep 600"
    await engine.launch([box.shell("j", script), box.launch("other", "sleep", "600")])
    await until_true(lambda: box.lines("ran"), "the job to run")
    await box.running(engine, "other")
    await kill_and_wait(box.runner_of("j"))
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (143, "stopped")
    assert len(box.job_processes()) == 1  # the other one is not touched


async def test_a_job_goes_on_when_supervisor_and_runner_are_killed_but_its_code_is_lost(
    box: Box,
) -> None:
    engine = await box.engine()
    pid = await _waiting_job(box, engine)
    await kill_and_wait(_supervisor(engine), box.runner_of("j"))
    assert (await box.running(engine, "j")).pid == pid
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert end.phase is Phase.LOST
    assert end.cause == "its exit code was lost: supervisor and runner were both killed"


async def test_a_job_without_supervisor_and_runner_can_still_be_stopped(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    await kill_and_wait(_supervisor(engine), box.runner_of("j"))
    await box.running(engine, "j")
    await engine.stop([AttemptKey("j", 1)])
    assert (await box.end(engine, "j")).phase is Phase.LOST
    assert box.job_processes() == {}


async def test_a_job_adopted_from_a_dead_supervisor_can_be_stopped(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    await kill_and_wait(_supervisor(engine))
    await engine.stop([AttemptKey("j", 1)])
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, end.cause) == (Phase.EXITED, 143, "stopped")


async def test_what_an_adopted_job_leaves_behind_is_ended(box: Box) -> None:
    engine = await box.engine()
    script = "sleep 600 & echo x >> $WORK/ran; while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 9"
    await engine.launch([box.shell("j", script)])
    await until_true(lambda: box.lines("ran"), "the job to run")
    await kill_and_wait(_supervisor(engine))
    await box.running(engine, "j")
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 9)
    assert box.job_processes() == {}


async def test_a_time_limit_counts_from_the_start_also_for_the_next_supervisor(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine, time_limit_ms=1_500)
    await kill_and_wait(_supervisor(engine))
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (143, "time_limit")
    assert end.started_at is not None
    assert 1_500 <= end.at - end.started_at < 6_000


async def test_a_stop_is_carried_through_by_the_next_supervisor(box: Box) -> None:
    engine = await box.engine()
    script = "trap '' TERM; echo $$ >> $WORK/ran; while :; do sleep 0.05; done"
    await engine.launch([box.shell("j", script, grace_ms=1_000)])
    await until_true(lambda: box.lines("ran"), "the job to run")
    await engine.stop([AttemptKey("j", 1)])
    await kill_and_wait(_supervisor(engine))
    end = await box.end(engine, "j")
    assert (end.exit_code, end.cause) == (137, "stopped")


async def test_after_a_reboot_what_ran_is_lost_with_that_cause(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    processes = box.processes()
    await engine.close()
    await kill_and_wait(*processes)
    box.boot_id_file.write_text("boot-2\n")
    end = await box.end(await box.engine(), "j")
    assert (end.phase, end.cause) == (Phase.LOST, "the machine was rebooted")


async def test_after_a_reboot_what_had_ended_before_keeps_its_exit_code(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    supervisor = _supervisor(engine)
    await engine.close()
    await kill_and_wait(supervisor)
    (box.work / "go").touch()
    await until_true(lambda: not box.processes(), "the last runner to end")
    box.boot_id_file.write_text("boot-2\n")
    end = await box.end(await box.engine(), "j")
    assert (end.phase, end.exit_code) == (Phase.EXITED, 9)


async def test_a_line_of_the_journal_cut_short_is_passed_over(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "exit 3")])
    await box.end(engine, "j")
    supervisor = _supervisor(engine)
    await engine.close()
    await kill_and_wait(supervisor)
    with (box.directory / "attempts.log").open("a") as journal:
        journal.write('["over","j",1,"exi')
    again = await box.engine()
    assert [(seen.phase, seen.exit_code) for seen in await again.observe()] == [(Phase.EXITED, 3)]


async def test_what_was_forgotten_stays_forgotten_and_its_logs_stay(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([box.shell("j", "echo kept")])
    await box.end(engine, "j")
    await engine.forget([AttemptKey("j", 1)])
    await kill_and_wait(_supervisor(engine))
    assert await engine.observe() == []
    assert box.text("j") == "kept\n"
    assert '"j"' not in (box.directory / "attempts.log").read_text()


async def test_an_attempt_no_runner_had_claimed_is_not_started_and_never_runs(box: Box) -> None:
    box.directory.mkdir()
    record = ["launch", "j", 1, "boot-1", 300, None]
    (box.directory / "attempts.log").write_text(json.dumps(record) + "\n")
    engine = await box.engine()
    end = await box.end(engine, "j")
    assert (end.phase, end.retry) == (Phase.NOT_STARTED, True)
    assert end.cause == "the supervisor was restarted before the command was started"
    await engine.forget([AttemptKey("j", 1)])
    await engine.launch([box.shell("j", "echo x >> $WORK/ran")])
    assert (await box.end(engine, "j")).phase is Phase.NOT_STARTED
    assert box.lines("ran") == []


async def test_a_journal_of_a_newer_version_is_refused_and_left_alone(box: Box) -> None:
    box.directory.mkdir()
    (box.directory / "attempts.log").write_text('["version",99]\n')
    with pytest.raises(EngineUnavailable, match="written by a newer version"):
        await box.engine()
    assert (box.directory / "attempts.log").read_text() == '["version",99]\n'


async def test_two_engines_opened_at_once_share_one_supervisor(box: Box) -> None:
    engines = await asyncio.gather(*(box.engine() for _ in range(4)))
    assert len({engine.supervisor_pid for engine in engines}) == 1
    launch = box.shell("j", "echo x >> $WORK/ran")
    await asyncio.gather(*(engine.launch([launch]) for engine in engines))
    for engine in engines:
        assert (await box.end(engine, "j")).exit_code == 0
    assert box.lines("ran") == ["x"]


async def test_terminating_the_supervisor_politely_harms_no_job_either(box: Box) -> None:
    engine = await box.engine()
    pid = await _waiting_job(box, engine)
    first = _supervisor(engine)
    kill(first, number=15)  # type: ignore[arg-type]  # a plain number is as good
    await until_true(lambda: engine.supervisor_pid not in (first, None), "the next supervisor")
    assert (await box.running(engine, "j")).pid == pid
    (box.work / "go").touch()
    assert (await box.end(engine, "j")).exit_code == 9


async def test_killed_at_random_in_a_burst_nothing_runs_twice_and_every_code_is_right(
    box: Box,
) -> None:
    chance = random.Random(20)
    engine = await box.engine()
    expected: dict[str, int] = {}
    for round_number in range(10):
        launches: list[Launch] = []
        for number in range(12):
            name = f"r{round_number}-{number}"
            expected[name] = number
            script = f"echo {name} >> $WORK/ran; sleep 0.0{number}; exit {number}"
            launches.append(box.shell(name, script))
        burst = asyncio.create_task(engine.launch(launches))
        # Not a wait for anything: the moment of the kill is what is random.
        await asyncio.sleep(chance.uniform(0, 0.03))
        if engine.supervisor_pid is not None:
            kill(engine.supervisor_pid)
        await burst
    ends = {name: await box.end(engine, name) for name in expected}
    ran = box.lines("ran")
    assert len(ran) == len(set(ran))
    for name, end in ends.items():
        if end.phase is Phase.NOT_STARTED:
            assert name not in ran, end
        else:
            assert (end.phase, end.exit_code) == (Phase.EXITED, expected[name]), end
            assert name in ran
    assert sum(end.phase is Phase.EXITED for end in ends.values()) > 0


async def test_runners_killed_at_random_lose_no_job(box: Box) -> None:
    chance = random.Random(21)
    engine = await box.engine()
    names = [f"j{number}" for number in range(10)]
    script = "echo x >> $WORK/ran; while [ ! -e $WORK/go ]; do sleep 0.02; done; exit 9"
    await engine.launch([box.shell(name, script) for name in names])
    for name in names:
        await box.running(engine, name)
    await until_true(lambda: len(box.lines("ran")) == len(names), "every job to run")
    await kill_and_wait(*chance.sample([box.runner_of(name) for name in names], 6))
    (box.work / "go").touch()
    for name in names:
        end = await box.end(engine, name)
        assert (end.phase, end.exit_code) == (Phase.EXITED, 9)


async def test_ending_the_supervisor_by_its_command_line_spares_the_runners(box: Box) -> None:
    engine = await box.engine()
    await _waiting_job(box, engine)
    named = [
        pid
        for pid in box.processes()
        if b"engines.local.supervisor" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    assert named == [_supervisor(engine)]
    await kill_and_wait(*named)
    (box.work / "go").touch()
    end = await box.end(engine, "j")
    assert (end.phase, end.exit_code, len(box.lines("ran"))) == (Phase.EXITED, 9, 1)
