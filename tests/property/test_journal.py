"""The journal says all there is to say: a state comes back from its lines, whole or from half."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from tests.property.oracle import HALF_LIFE_MS
from tests.property.world import World, a_lived_in_world
from tgpu.core.model.events import Event, SettingsSet, TimePassed
from tgpu.core.state.cluster_state import State
from tgpu.core.state.digest import digest
from tgpu.journal.excerpt import excerpt_lines
from tgpu.journal.lines import Journal, end_line, header_line, row_line
from tgpu.journal.rebuild import rebuild
from tgpu.store import event_codec

seeds = st.integers(0, 2**32)


def events_of(world: World) -> list[Event]:
    """What a store would have of it."""
    hours = HALF_LIFE_MS / 3_600_000
    first = SettingsSet(0, "x", {"scheduler.fair_share_half_life_hours": hours})
    return [first, *(event for event in world.events if not isinstance(event, TimePassed))]


def lines_of(events: list[Event]) -> list[bytes]:
    rows = [
        row_line(seq, event_codec.kind_of(event), event_codec.event_text(event, {}).encode())
        for seq, event in enumerate(events, 1)
    ]
    header = header_line(exported_at=0, last_seq=len(rows))
    return [header, *rows, end_line(len(rows), len(rows))]


def at(state: State, now: int) -> str:
    state.apply(TimePassed(now))
    return digest(state)


@given(seed=seeds)
def test_a_state_comes_back_from_its_journal(seed: int) -> None:
    world = a_lived_in_world(Random(seed))
    events = events_of(world)
    found = rebuild(Journal("x", lines_of(events)))
    assert at(found.state, world.state.now) == digest(world.state)


@given(seed=seeds, part=st.floats(0, 1))
def test_a_state_comes_back_from_a_snapshot_and_what_came_after(seed: int, part: float) -> None:
    world = a_lived_in_world(Random(seed))
    events = events_of(world)
    since = events[round(part * (len(events) - 1))].at
    half = [line for line, _ in excerpt_lines(Journal("x", lines_of(events)), since, None)]
    found = rebuild(Journal("half", half))
    assert at(found.state, world.state.now) == digest(world.state)
