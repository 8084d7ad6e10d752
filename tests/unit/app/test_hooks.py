"""Hooks of the settings: which programs are taken, and what a service does when they fail."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.service.eventually import eventually
from tests.unit.service.world import a_box, a_submission
from tgpu.app.hooks import connect_hooks, with_hooks
from tgpu.app.refusal import CannotServe
from tgpu.core.model.lifecycle import JobState
from tgpu.engines.fake import FakeEngine
from tgpu.engines.hooks.engine import HookedEngine, HookSettings
from tgpu.settings import Settings


def chosen(**engine: Any) -> Settings:
    return Settings.model_validate({"engine": engine})


def test_without_hooks_the_engine_is_as_it_was():
    engine = FakeEngine()
    assert with_hooks(engine, chosen()) is engine
    assert with_hooks(None, chosen(prolog=["/bin/true"])) is None
    assert isinstance(with_hooks(engine, chosen(epilog=["/bin/true", "-x"])), HookedEngine)


@pytest.mark.parametrize(
    ("mode", "name", "said"),
    [
        (0o644, "hook", "cannot be run; chmod"),
        (0o777, "hook", "others could change"),
        (0o755, "other", "there is no such file"),
    ],
)
def test_a_program_that_cannot_be_trusted_is_refused(
    tmp_path: Path, mode: int, name: str, said: str
) -> None:
    path = tmp_path / "hook"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    with pytest.raises(CannotServe, match=said):
        with_hooks(FakeEngine(), chosen(prolog=[str(tmp_path / name)]))


def test_a_program_without_a_whole_path_is_refused():
    with pytest.raises(CannotServe, match=r"engine\.epilog: 'rm' is not an absolute path"):
        with_hooks(FakeEngine(), chosen(epilog=["rm", "-rf", "/scratch"]))


async def test_prologs_that_fail_in_a_row_hold_the_machine_until_it_is_released(
    tmp_path: Path,
) -> None:
    check = ("/bin/sh", "-c", f"[ -e {tmp_path}/well ]")
    engine: Any = HookedEngine(FakeEngine(), HookSettings(prolog=check, hold_after=1))
    async with a_box(engine=engine, gpus="sim:2xA100") as box:
        service = box.service
        connect_hooks(service)
        await box.submit(a_submission("true", job_id="j"))
        await box.tick()

        def is_held() -> bool:
            gpus = service.state.ledger.nodes[service.hardware.node_id].node.gpus
            reason = "drained: the prolog ended with exit code 1"
            return [gpu.paused for gpu in gpus] == [reason] * 2

        await eventually(is_held, "the machine to be held")
        await box.until("j", JobState.PENDING)
        progress = (await service.job("j")).progress
        assert progress.cause == (
            "the prolog of this machine ended with exit code 1; it will be retried"
        )
        assert progress.failures == 0
        assert "the prolog of job j ended with exit code 1" in service.problems()
        (tmp_path / "well").touch()
        for index in (0, 1):
            await service.pause_gpu(index, None)
        await box.tick(60_000)
        await box.until("j", JobState.RUNNING)
        assert not any("prolog" in problem for problem in service.problems())
