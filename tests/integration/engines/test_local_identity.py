"""An attempt of another job with the same id: from another database, or from before a restore."""

from dataclasses import replace

from tests.integration.engines.box import Box, kill_and_wait, until_true
from tgpu.engines.api import AttemptKey, Launch, Phase

OLD, NEW = "0" * 32, "f" * 32


def of(launch: Launch, identity: str) -> Launch:
    return replace(launch, key=launch.key._replace(identity=identity))


async def test_a_record_of_another_job_never_answers(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([of(box.shell("j", "echo old; exit 7"), OLD)])
    assert (await box.end(engine, "j")).exit_code == 7
    await engine.forget([AttemptKey("j", 1, OLD)])
    await engine.launch([of(box.shell("j", "echo new >> $WORK/ran; echo new"), NEW)])
    end = await box.end(engine, "j")
    assert (end.key.identity, end.phase, end.exit_code) == (NEW, Phase.EXITED, 0)
    assert box.lines("ran") == ["new"]
    assert box.text("j") == "new\n"
    # What the other one left is kept, and found by whoever asks for that one.
    aside = engine.find_logs(AttemptKey("j", 1, OLD))
    assert aside == str(box.directory / "jobs" / "j" / f"1.{OLD}")
    assert (box.directory / "jobs" / "j" / f"1.{OLD}" / "stdout.log").read_text() == "old\n"
    # Told again, its own record answers: it does not run twice.
    await engine.forget([end.key])
    await engine.launch([of(box.shell("j", "echo again >> $WORK/ran"), NEW)])
    assert (await box.end(engine, "j")).exit_code == 0
    await engine.forget([end.key])
    await engine.launch([of(box.shell("j", "echo again >> $WORK/ran"), OLD)])
    assert (await box.end(engine, "j")).exit_code == 7
    assert box.lines("ran") == ["new"]


async def test_known_and_not_forgotten_it_still_does_not_stand_for_another(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([of(box.shell("j", "exit 7"), OLD)])
    await box.end(engine, "j")
    await engine.launch([of(box.shell("j", "echo new >> $WORK/ran"), NEW)])
    await until_true(lambda: box.lines("ran") == ["new"], "the new one to run")
    await engine.stop([AttemptKey("j", 1, NEW)])
    ends = {seen.key.identity: seen.exit_code for seen in await engine.observe()}
    assert ends[OLD] == 7


async def test_one_that_still_runs_keeps_its_directory_and_is_not_stopped(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([of(box.shell("j", "echo old; sleep 60"), OLD)])
    running = await box.running(engine, "j")
    await engine.launch([of(box.shell("j", "echo new >> $WORK/ran"), NEW)])

    async def refusal() -> str | None:
        found = [seen for seen in await engine.observe() if seen.key.identity == NEW]
        return found[0].cause if found else None

    cause = None
    while cause is None:
        cause = await refusal()
    assert "belongs to an earlier job of the same id that still runs" in cause
    assert str(running.pid) in cause
    await engine.stop([AttemptKey("j", 1, NEW)])
    old = next(seen for seen in await engine.observe() if seen.key.identity == OLD)
    assert old.phase is Phase.RUNNING
    assert box.text("j") == "old\n"
    assert box.lines("ran") == []


async def test_also_where_its_runner_was_killed_and_nobody_holds_the_lock(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([of(box.shell("j", "sleep 60"), OLD)])
    await box.running(engine, "j")
    await kill_and_wait(box.runner_of("j"))
    await engine.launch([of(box.shell("j", "echo new >> $WORK/ran"), NEW)])
    await until_true(lambda: (box.directory / "jobs" / "j" / "1").exists(), "the directory to stay")
    end = None
    while end is None:
        found = [seen for seen in await engine.observe() if seen.key.identity == NEW]
        end = found[0] if found else None
    assert (end.phase, end.retry) == (Phase.NOT_STARTED, True)
    assert box.lines("ran") == []


async def test_a_new_supervisor_believes_only_the_record_of_the_same_job(box: Box) -> None:
    engine = await box.engine()
    await engine.launch([of(box.shell("j", "exit 0"), OLD)])
    await box.end(engine, "j")
    await engine.forget([AttemptKey("j", 1, OLD)])
    supervisor = engine.supervisor_pid
    assert supervisor is not None
    await engine.close()
    await kill_and_wait(supervisor)
    # As if the next one had been killed between taking the launch and handing it to a runner.
    with (box.directory / "attempts.log").open("a") as journal:
        journal.write(f'["launch","j",1,"{NEW}","boot-1",300,null]\n')
    again = await box.engine()
    end = await box.end(again, "j")
    assert (end.key.identity, end.phase, end.retry) == (NEW, Phase.NOT_STARTED, True)
