"""The learnt mix is part of the past, also where a journal begins in the middle."""

from tests.unit.journal.test_lines import EVENTS, HEADER, rows
from tgpu.core.model.events import MixSet
from tgpu.core.model.request_profile import RequestProfile, RequestShape
from tgpu.journal.lines import Journal
from tgpu.journal.rebuild import Rebuilt, rebuild, snapshot_lines

MIX = RequestProfile(
    ((RequestShape(500, 4_000, ("A100", "H100")), 6_000), (RequestShape(1_000), 4_000))
)


def rebuilt(*lines: bytes) -> Rebuilt:
    return rebuild(Journal("x", [HEADER, *lines]))


def test_a_mix_on_record_is_in_force_again() -> None:
    journal = Journal("x", [HEADER, *rows(MixSet(4, MIX))])
    assert [journal.event(row) for row in journal.rows()] == [MixSet(4, MIX)]
    assert rebuilt(*rows(MixSet(4, MIX))).state.ledger.request_profile == MIX


def test_a_journal_that_begins_later_knows_it_too() -> None:
    found = rebuilt(*EVENTS)
    found.state.apply(MixSet(4, MIX))
    assert rebuilt(*snapshot_lines(found)).state.ledger.request_profile == MIX
