"""What is called otherwise in the code by now is stored as it always was."""

import json

import pytest

from tests.builders import a_booking, a_job, a_placement, a_state, end_anyhow, entry_of, start
from tests.unit.journal.test_lines import HEADER
from tgpu.core.model import lifecycle
from tgpu.core.model.events import BookingSet, JobMoved, MixSet
from tgpu.core.model.ids import JobId
from tgpu.core.model.lifecycle import JobState, Move
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import Rebuilt, rebuild, snapshot_lines
from tgpu.store import event_codec


def test_why_a_job_can_never_start_is_its_doom_in_a_snapshot() -> None:
    found = Rebuilt(Journal("x", [HEADER]))
    found.state = a_state(a_job("a"), a_job("b", after=("a",)))
    end_anyhow(found.state, "a", JobState.FAILED)
    lines = list(snapshot_lines(found))
    jobs = [json.loads(line)["job"] for line in lines if line.startswith(b'{"job"')]
    assert [job["doom"] for job in jobs] == ["job a it depends on failed"]
    again = rebuild(Journal("x", [HEADER, *lines])).state
    assert again.unsatisfiable() == [("b", "job a it depends on failed")]


def a_nomination() -> JobMoved:
    state = a_state(a_job("a"))
    named = lifecycle.nominate(JobId("a"), entry_of(state, "a").progress, a_placement(0))
    return JobMoved(5, JobId("a"), Move.NOMINATE, named)


def a_preemption() -> JobMoved:
    state = a_state(a_job("a"))
    start(state, "a", 0)
    asked = lifecycle.ask_preemption(JobId("a"), entry_of(state, "a").progress, JobId("b"), "why")
    return JobMoved(5, JobId("a"), Move.STOP, asked)


@pytest.mark.parametrize(
    ("event", "kind", "words"),
    [
        (a_nomination(), "job_moved", ['"move":"be promised room"', '"claim":{"node_id":"n0"']),
        (a_preemption(), "job_moved", ['"move":"be stopped"', '"gives_way_to":"b"']),
        (BookingSet(5, a_booking("r-1", 0)), "booking_set", ['"booking":{"booking_id":"r-1"']),
        (
            MixSet(5, RequestProfile(((RequestShape(500), 10_000),))),
            "mix_set",
            ['"mix":{"wishes":[[[500,0,[]],10000]]}'],
        ),
    ],
    ids=["nomination", "preemption", "advance reservation", "request profile"],
)
def test_an_event_has_the_words_it_had_first(event, kind, words) -> None:
    assert event_codec.KINDS[kind] is type(event)
    text = event_codec.event_text(event, {})
    assert [word for word in words if word not in text] == []
    assert event_codec.decode_event(kind, text.encode()) == event
