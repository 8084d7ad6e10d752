import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.unit.devices.eventually import eventually
from tgpu.breaker import BreakerRules
from tgpu.devices.api import GpuReading, Snapshot
from tgpu.devices.simulated import SimulatedProvider
from tgpu.devices.watch import DeviceWatch

SLOW = "slow: no answer from the driver in 0.2 s"


class AProvider:
    """Counts its reads, and hangs in them while `answering` is clear."""

    name = "nvml"
    simulated = False

    def __init__(self) -> None:
        self.answering = threading.Event()
        self.answering.set()
        self.reads = 0
        self.threads: set[int] = set()
        self.error: Exception | None = None
        self.closed = threading.Event()

    def read(self) -> Snapshot:
        self.reads += 1
        self.threads.add(threading.get_ident())
        number = self.reads
        assert self.answering.wait(30)
        if self.error is not None:
            raise self.error
        return Snapshot(self.name, (GpuReading(0, "GPU-a", "x", "x", 1, temperature_c=number),))

    def close(self) -> None:
        self.closed.set()


@pytest.fixture
def provider() -> Iterator[AProvider]:
    provider = AProvider()
    yield provider
    provider.answering.set()


@pytest.fixture
def watch(provider: AProvider) -> Iterator[DeviceWatch]:
    """So patient that a busy machine is never taken for a slow driver."""
    watch = DeviceWatch(provider, timeout_seconds=60)
    yield watch
    watch.close()


@pytest.fixture
def hasty(provider: AProvider) -> Iterator[DeviceWatch]:
    watch = DeviceWatch(provider, timeout_seconds=0.2)
    yield watch
    watch.close()


def temperature(snapshot: Snapshot | None) -> int | None:
    assert snapshot is not None
    return snapshot.gpus[0].temperature_c


async def read_until_well(watch: DeviceWatch) -> Snapshot:
    async with asyncio.timeout(20):
        while (snapshot := await watch.read()).problem is not None:
            await asyncio.sleep(0.02)
    return snapshot


async def test_every_read_asks_the_provider_anew(watch: DeviceWatch) -> None:
    assert temperature(await watch.read()) == 1
    assert temperature(await watch.read()) == 2


async def test_last_is_the_newest_answer(watch: DeviceWatch) -> None:
    assert watch.last is None
    await watch.read()
    assert temperature(watch.last) == 1


async def test_all_reads_happen_in_one_thread_that_is_not_the_callers(
    watch: DeviceWatch, provider: AProvider
) -> None:
    for _ in range(5):
        await watch.read()
    assert len(provider.threads) == 1
    assert threading.get_ident() not in provider.threads


async def test_a_slow_driver_gives_the_last_snapshot_with_a_problem(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    answered = await read_until_well(hasty)
    provider.answering.clear()
    assert await hasty.read() == replace(answered, problem=SLOW)


async def test_a_driver_slow_from_the_start_gives_an_empty_snapshot(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    assert await hasty.read() == Snapshot("nvml", (), SLOW)


async def test_calls_do_not_pile_up_behind_a_hung_one(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    threads_before = threading.active_count()
    for _ in range(50):
        assert (await hasty.read()).problem == SLOW
    assert provider.reads == 1
    assert threading.active_count() == threads_before


async def test_reads_behind_a_hung_call_do_not_wait_again(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    await hasty.read()
    started = asyncio.get_running_loop().time()
    for _ in range(20):
        await hasty.read()
    assert asyncio.get_running_loop().time() - started < 2.0  # 20 time-outs would be 4 s


async def test_the_event_loop_goes_on_while_the_driver_hangs(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    reading = asyncio.create_task(hasty.read())
    await asyncio.sleep(0)
    assert not reading.done()
    assert (await reading).problem == SLOW


async def test_it_recovers_when_the_driver_answers(hasty: DeviceWatch, provider: AProvider) -> None:
    provider.answering.clear()
    await hasty.read()
    provider.answering.set()
    eventually(lambda: hasty.last is not None)
    assert (temperature(await read_until_well(hasty)) or 0) >= 2


# -- a driver that keeps failing -----------------------------------------------------------------

_RETRY_MS = 200


@pytest.fixture
def guarded(provider: AProvider) -> Iterator[DeviceWatch]:
    """Leaves the driver alone after three failures, for a fifth of a second at a time."""
    watch = DeviceWatch(provider, timeout_seconds=60, rules=BreakerRules(3, _RETRY_MS))
    yield watch
    watch.close()


async def test_a_failure_or_two_keep_the_last_reading(
    guarded: DeviceWatch, provider: AProvider
) -> None:
    good = await guarded.read()
    provider.error = OSError("odd")
    for _ in range(2):
        assert await guarded.read() == replace(good, problem="failed: OSError: odd")


async def test_after_several_failures_the_last_reading_is_stale_and_nobody_asks(
    guarded: DeviceWatch, provider: AProvider
) -> None:
    await guarded.read()
    provider.error = OSError("odd")
    for _ in range(3):
        snapshot = await guarded.read()
    assert [gpu.problem for gpu in snapshot.gpus] == ["stale: failed: OSError: odd"]
    assert temperature(snapshot) == 1
    assert "no new jobs start" in (snapshot.problem or "")
    reads = provider.reads
    failed_at = guarded.breaker.failed_at
    assert (await guarded.read()).gpus == snapshot.gpus
    # On a machine so busy that the pause was over by then, it was tried once more.
    assert provider.reads == reads or guarded.breaker.failed_at - failed_at >= _RETRY_MS


async def test_it_is_tried_again_and_everything_is_as_before(
    guarded: DeviceWatch, provider: AProvider
) -> None:
    await guarded.read()
    provider.error = OSError("odd")
    for _ in range(3):
        await guarded.read()
    provider.error = None
    snapshot = await read_until_well(guarded)
    assert [gpu.problem for gpu in snapshot.gpus] == [None]
    assert guarded.breaker.is_closed


async def test_a_hung_driver_is_stale_too_and_closes_the_breaker_when_it_answers(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    await read_until_well(hasty)
    provider.answering.clear()
    for _ in range(3):
        snapshot = await hasty.read()
    assert [gpu.problem for gpu in snapshot.gpus] == [f"stale: {SLOW}"]
    provider.answering.set()
    eventually(lambda: hasty.breaker.is_closed)
    assert (await read_until_well(hasty)).gpus[0].problem is None


async def test_a_note_on_a_good_reading_is_no_failure(watch: DeviceWatch) -> None:
    simulated = SimulatedProvider("sim:1xA100")
    noted = DeviceWatch(simulated)
    simulated._file_problem = "state file not understood"
    for _ in range(5):
        snapshot = await noted.read()
    assert snapshot.gpus[0].problem is None
    assert noted.breaker.is_closed
    noted.close()


async def test_what_costs_nothing_is_had_at_once_and_stays_the_same() -> None:
    simulated = SimulatedProvider("sim:2xA100")
    watch = DeviceWatch(simulated)
    first = await watch.read()
    assert watch.at_once() is first
    simulated.set(1, temperature_c=77)
    changed = watch.at_once()
    assert changed is not None
    assert changed.gpus[1].temperature_c == 77
    watch.close()


async def test_a_driver_is_never_asked_at_once(watch: DeviceWatch) -> None:
    assert watch.at_once() is None


async def test_concurrent_reads_share_one_call(watch: DeviceWatch, provider: AProvider) -> None:
    provider.answering.clear()
    first, second = (asyncio.create_task(watch.read()) for _ in range(2))
    await asyncio.sleep(0)
    provider.answering.set()
    assert await first == await second
    assert provider.reads == 1


async def test_a_cancelled_read_does_no_harm(watch: DeviceWatch, provider: AProvider) -> None:
    provider.answering.clear()
    reading = asyncio.create_task(watch.read())
    await asyncio.sleep(0)
    reading.cancel()
    provider.answering.set()
    eventually(lambda: watch.last is not None)
    assert (await watch.read()).problem is None


async def test_a_provider_that_raises_becomes_a_problem(
    watch: DeviceWatch, provider: AProvider
) -> None:
    await watch.read()
    provider.error = OSError("odd")
    snapshot = await watch.read()
    assert (snapshot.problem, temperature(snapshot)) == ("failed: OSError: odd", 1)
    provider.error = None
    assert (await watch.read()).problem is None


def test_an_answer_after_its_loop_was_closed_does_no_harm(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    asyncio.run(hasty.read())
    provider.answering.set()
    eventually(lambda: hasty.last is not None)
    assert asyncio.run(read_until_well(hasty)).problem is None


async def test_close_closes_the_provider_and_refuses_reads(
    watch: DeviceWatch, provider: AProvider
) -> None:
    watch.close()
    watch.close()
    assert provider.closed.wait(10)
    with pytest.raises(RuntimeError, match="closed"):
        await watch.read()


async def test_close_does_not_wait_for_a_hung_driver(
    hasty: DeviceWatch, provider: AProvider
) -> None:
    provider.answering.clear()
    await hasty.read()
    hasty.close()
    assert not provider.closed.is_set()
    provider.answering.set()
    assert provider.closed.wait(10)


def test_the_interpreter_exits_while_the_driver_hangs() -> None:
    program = """
import asyncio, threading
from tgpu.devices.watch import DeviceWatch
class Hung:
    name, simulated = "nvml", False
    def read(self): threading.Event().wait()
    def close(self): ...
watch = DeviceWatch(Hung(), timeout_seconds=0.1)
assert asyncio.run(watch.read()).problem
watch.close()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
