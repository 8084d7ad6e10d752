"""The screen, driven by keys against a service in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Static

from tests.unit.cli.builders import a_gpu, a_job, a_reason, a_running_job, some_gpus
from tests.unit.cli.fake_service import a_folded_job, an_element
from tests.unit.cli.screen_service import ScreenService
from tgpu.cli.top.app import Top
from tgpu.cli.top.panels import KEYS, ConfirmationScreen, Help, NamedRows
from tgpu.cli.top.source import ScreenWish, look

SMALL = (80, 24)
_NEVER = 3600.0  # looks come only from keys


@pytest.fixture
def service() -> ScreenService:
    service = ScreenService(gpus=some_gpus(a_gpu(0, jobs=["1"], status="busy"), a_gpu(1)))
    waiting = a_job("2", name="next", reason=a_reason("needs 2 GPUs; 1 of 2 free", remedy="tgpu x"))
    service.add(a_running_job("1", name="train"), waiting)
    service.logs["1", "stdout"] = b"step 1\nstep 2\n"
    service.logs["1", "stderr"] = b"a warning\n"
    return service


@asynccontextmanager
async def screen(service: ScreenService, seconds: float = _NEVER) -> AsyncIterator[Pilot[None]]:
    client = service.client()
    app = Top(client, seconds, look(client, ScreenWish()))
    async with app.run_test(size=SMALL) as pilot:
        await until(pilot, lambda: not app.is_looking)
        yield pilot


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    """Lets the screen go on until it is so; a bounded number of turns."""
    for _ in range(300):
        await pilot.pause()
        if is_so():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came to be so")


def table(pilot: Pilot[None], name: str) -> str:
    rows = pilot.app.query_one(f"#{name}", NamedRows)
    return "\n".join(" ".join(str(c) for c in rows.get_row_at(i)) for i in range(rows.row_count))


def text(pilot: Pilot[None], name: str) -> str:
    return str(pilot.app.screen_stack[0].query_one(f"#{name}", Static).content)


async def test_gpus_and_jobs_are_on_the_screen(service: ScreenService) -> None:
    async with screen(service) as pilot:
        assert "█" not in table(pilot, "gpus")
        assert "0M/80G" in table(pilot, "gpus")
        assert table(pilot, "jobs").splitlines()[0].startswith("1 train running")
        assert "needs 2 GPUs; 1 of 2 free" in table(pilot, "jobs")
        assert "1 waiting" in text(pilot, "summary")


async def test_the_log_below_is_of_the_chosen_job(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await until(pilot, lambda: "step 2" in text(pilot, "log"))
        await pilot.press("e")
        await until(pilot, lambda: "a warning" in text(pilot, "log"))
        assert text(pilot, "title") == "stderr of job 1"


async def test_of_a_job_that_waits_the_whole_reason_is_below(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("down")
        await until(pilot, lambda: "next: tgpu x" in text(pilot, "log"))
        assert text(pilot, "title") == "why job 2 waits"


async def test_a_job_is_cancelled_once_yes_is_said(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("c")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmationScreen))
        await pilot.press("n")
        await until(pilot, lambda: not isinstance(pilot.app.screen, ConfirmationScreen))
        assert service.changes == []
        await pilot.press("c")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmationScreen))
        await pilot.press("y")
        await until(pilot, lambda: service.changes == ["DELETE jobs/1"])


@pytest.mark.parametrize(("held", "action"), [(False, "hold"), (True, "release")])
async def test_a_waiting_job_is_held_and_released(
    service: ScreenService, held: bool, action: str
) -> None:
    service.add(a_job("2", held=held))
    async with screen(service) as pilot:
        await pilot.press("down", "h")
        await until(pilot, lambda: service.changes == [f"POST jobs/2/{action}"])


@pytest.mark.parametrize(("key", "priority"), [("plus", 600), ("minus", 400)])
async def test_a_waiting_job_is_raised_and_lowered(
    service: ScreenService, key: str, priority: int
) -> None:
    async with screen(service) as pilot:
        await pilot.press("down", key)
        await until(pilot, lambda: service.changes == [f'jobs/2 {{"priority":{priority}}}'])


async def test_the_chosen_gpu_is_paused_and_used_again(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("shift+tab", "down", "p")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmationScreen))
        await pilot.press("y")
        await until(pilot, lambda: "paused in tgpu top" in table(pilot, "gpus"))
        await pilot.press("p")
        await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmationScreen))
        await pilot.press("y")
        await until(pilot, lambda: service.changes == ["pause 1", "resume 1"])


async def test_with_ten_thousand_jobs_only_a_page_is_asked_for(service: ScreenService) -> None:
    service.add(*(a_job(str(number)) for number in range(2, 10_002)))
    async with screen(service) as pilot:
        jobs = pilot.app.query_one("#jobs", NamedRows)
        assert jobs.row_count == 101
        service.requests.clear()
        await pilot.press("r")
        await until(pilot, lambda: len(service.requests) >= 5)
        app = pilot.app
        assert isinstance(app, Top)
        await until(pilot, lambda: not app.is_looking)
        assert len(service.requests) == 5
        await pilot.press("n")
        await until(pilot, lambda: jobs.get_row_at(1)[0].plain == "102")
        assert "page 2" in text(pilot, "summary")
        await pilot.press("b")
        await until(pilot, lambda: jobs.get_row_at(1)[0].plain == "2")


async def test_a_service_that_goes_away_is_said_and_sat_out(service: ScreenService) -> None:
    async with screen(service) as pilot:
        service.broken = httpx.ConnectError("refused")
        await pilot.press("r")
        await until(pilot, lambda: "last known state" in text(pilot, "summary"))
        assert "train" in table(pilot, "jobs")
        service.broken = None
        await pilot.press("r")
        await until(pilot, lambda: "1 waiting" in text(pilot, "summary"))


async def test_the_cursor_stays_on_its_job_while_others_come_and_go(
    service: ScreenService,
) -> None:
    async with screen(service) as pilot:
        jobs = pilot.app.query_one("#jobs", NamedRows)
        await pilot.press("down")
        service.add(a_running_job("0"))
        await pilot.press("r")
        await until(pilot, lambda: jobs.row_count == 3)
        assert jobs.chosen == "2"


async def test_it_looks_again_by_itself(service: ScreenService) -> None:
    # Not so often that the screen never comes to rest between two looks.
    async with screen(service, seconds=0.5) as pilot:
        service.add(a_running_job("7", name="late"))
        await until(pilot, lambda: "late" in table(pilot, "jobs"))


async def test_q_ends_it(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("q")
        await until(pilot, lambda: not pilot.app.is_running)


# -- arrays, filter, help ------------------------------------------------------------------------


@pytest.fixture
def with_array(service: ScreenService) -> ScreenService:
    service.add(a_folded_job("7", completed=120, running=5, pending=75))
    service.add(*(an_element("7", n, name="sweep") for n in (121, 122)))
    return service


async def test_an_array_is_one_row_and_its_elements_on_a_key(with_array: ScreenService) -> None:
    service = with_array
    async with screen(service) as pilot:
        assert "120/200 done, 5 running" in table(pilot, "jobs")
        assert {query.get("fold") for query in service.lists} == {"true"}
        await pilot.press("down", "x")
        await until(pilot, lambda: "7.122" in table(pilot, "jobs"))
        assert "elements of 7.[1-200]" in text(pilot, "summary")
        assert "train" not in table(pilot, "jobs")
        assert service.lists[-1]["array_id"] == "7"
        await pilot.press("x")
        await until(pilot, lambda: "train" in table(pilot, "jobs"))


async def test_only_an_array_can_be_expanded(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("x")
        await until(pilot, lambda: "train" in table(pilot, "jobs"))
        assert "elements" not in text(pilot, "summary")


@pytest.mark.parametrize(
    ("keys", "sent"),
    [
        (("c", "y"), {"action": "cancel", "jobs": ["7"]}),
        (("h",), {"action": "hold", "jobs": ["7"]}),
        (("plus",), {"action": "priority", "jobs": ["7"], "priority": 600}),
    ],
)
async def test_what_is_done_to_the_row_of_an_array_is_done_to_all_at_once(
    with_array: ScreenService, keys: tuple[str, ...], sent: dict[str, object]
) -> None:
    async with screen(with_array) as pilot:
        await pilot.press("down", keys[0])
        if len(keys) > 1:
            await until(pilot, lambda: isinstance(pilot.app.screen, ConfirmationScreen))
            await pilot.press(keys[1])
        await until(pilot, lambda: with_array.bodies == [sent])


async def test_a_filter_shows_what_matches_until_escape(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("slash", *"ADA next")
        await until(pilot, lambda: "train" not in table(pilot, "jobs"))
        assert "2 next" in table(pilot, "jobs")
        assert "/ADA next" in text(pilot, "summary")
        assert int(service.lists[-1]["limit"]) == 1000  # not only what a page has
        await pilot.press("enter", "escape")
        await until(pilot, lambda: "train" in table(pilot, "jobs"))


async def test_help_has_all_keys_and_any_key_closes_it(service: ScreenService) -> None:
    async with screen(service) as pilot:
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(pilot.app.screen, Help))
        await pilot.press("q")
        await until(pilot, lambda: not isinstance(pilot.app.screen, Help))
        assert pilot.app.is_running


def test_every_key_is_in_the_help() -> None:
    told = " ".join(keys for keys, _ in KEYS)
    shown = {"question_mark": "?", "slash": "/", "plus,equals_sign": "+", "minus": "-"}
    for binding in Top.BINDINGS:
        assert isinstance(binding, Binding)
        key = shown.get(binding.key, binding.key)
        assert key == "?" or key.lower() in told.lower()


async def test_names_use_the_width_there_is(service: ScreenService) -> None:
    service.add(a_running_job("1", name="n" * 60), a_job("2", user="bob"))
    client = service.client()
    app = Top(client, _NEVER, look(client, ScreenWish()))
    async with app.run_test(size=(140, 24)) as pilot:
        await until(pilot, lambda: not app.is_looking)
        assert "n" * 60 in table(pilot, "jobs")
        assert "bob" in table(pilot, "jobs")
    async with screen(service) as pilot:
        assert "n" * 60 not in table(pilot, "jobs")
