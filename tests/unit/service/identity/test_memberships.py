"""Names and groups of users: asked seldom, off the loop, and of a list that may hang."""

import asyncio
import pwd
import threading

import pytest

from tests.unit.service.eventually import eventually
from tgpu.core.errors import Unavailable
from tgpu.peers.users import Membership, membership_of, name_of
from tgpu.service.identity.memberships import Memberships

GAMES = pwd.getpwnam("games")


class Lists:
    """The system's lists, for tests to change, and a clock."""

    def __init__(self) -> None:
        self.groups: set[str] = {"vision-team"}
        self.asked = 0
        self.time = 0.0
        self.hangs = threading.Event()
        self.hangs.set()  # it does not

    def look_up(self, uid: int) -> Membership:
        self.asked += 1
        self.hangs.wait()
        return Membership("ada", frozenset(self.groups))

    def memberships(self, **options: float) -> Memberships:
        return Memberships(self.look_up, 30, clock=lambda: self.time, **options)


async def test_an_answer_is_believed_for_a_while_and_then_asked_for_again():
    lists = Lists()
    members = lists.memberships()
    for _ in range(3):
        assert (await members.of(7)).groups == {"vision-team"}
    lists.groups.clear()
    lists.time = 30
    assert (await members.of(7)).groups == {"vision-team"}
    lists.time = 30.1
    assert (await members.of(7)).groups == set()
    assert lists.asked == 2


async def test_many_who_ask_at_once_are_one_question():
    lists = Lists()
    lists.hangs.clear()
    members = lists.memberships()
    asking = [asyncio.create_task(members.of(7)) for _ in range(50)]
    await eventually(lambda: lists.asked == 1, "asked")
    asking[0].cancel()  # others still wait for the answer
    lists.hangs.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert {type(each) for each in found} == {asyncio.CancelledError, Membership}
    assert lists.asked == 1


async def test_a_list_that_hangs_is_no_answer_and_holds_up_nobody():
    lists = Lists()
    lists.hangs.clear()
    members = lists.memberships(patience=0.05)
    try:
        with pytest.raises(Unavailable, match="its user database does not answer"):
            await members.of(7)
        with pytest.raises(Unavailable):
            await members.of(7)  # at once: the first question still hangs
        assert lists.asked == 1
    finally:
        lists.hangs.set()
    await eventually(lambda: not members._threads.stuck, "back")
    assert (await members.of(7)).name == "ada"


async def test_callers_who_stay_are_looked_up_again_behind_them():
    lists = Lists()
    members = lists.memberships()
    await members.of(7)
    lists.groups.clear()
    lists.time = 29
    assert members.now(7) == Membership("ada", frozenset({"vision-team"}))
    lists.time = 30
    members.now(7)
    await eventually(lambda: members.now(7) == Membership("ada"), "asked again")
    assert lists.asked == 2


async def test_callers_who_stay_are_not_believed_for_ever_where_nobody_answers():
    lists = Lists()
    members = lists.memberships(patience=0.05)
    await members.of(7)
    lists.hangs.clear()
    try:
        lists.time = 60
        assert members.now(7) is not None
        lists.time = 60.2
        assert members.now(7) is None
    finally:
        lists.hangs.set()


def test_groups_are_those_of_the_systems_lists_and_numbers_without_a_name_are_themselves():
    assert membership_of(GAMES.pw_uid) == Membership("games", frozenset({"games"}))
    assert name_of(GAMES.pw_uid) == Membership("games")
    assert membership_of(4_000_000) == name_of(4_000_000) == Membership("4000000")
