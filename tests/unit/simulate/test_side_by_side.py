"""Pieces of work in processes of their own."""

import multiprocessing
import os

import pytest

from tgpu.simulate.side_by_side import processors, side_by_side


def nobody(more: int) -> None:
    pass


def test_what_comes_back_is_in_the_order_of_the_pieces():
    pieces = [lambda tell, number=number: number * number for number in range(5)]
    assert side_by_side(pieces, 2, nobody) == [0, 1, 4, 9, 16]


def test_every_piece_has_a_process_of_its_own():
    pids = side_by_side([lambda tell: os.getpid()] * 3, 2, nobody)
    assert len({*pids, os.getpid()}) == 4


def test_what_they_tell_is_told_here():
    told: list[int] = []

    def piece(tell):
        tell(3)
        tell(4)

    side_by_side([piece, piece], 2, told.append)
    assert sum(told) == 14


def test_one_that_fails_says_how():
    def piece(tell):
        raise ValueError("no such thing")

    with pytest.raises(RuntimeError, match="no such thing"):
        side_by_side([piece], 2, nobody)


def test_one_that_is_killed_fails():
    with pytest.raises(RuntimeError, match="without a result"):
        side_by_side([lambda tell: os._exit(9)], 2, nobody)


def test_the_others_are_ended_where_one_fails():
    def fails(tell):
        raise ValueError

    def goes_on(tell):
        while True:
            os.sched_yield()

    with pytest.raises(RuntimeError):
        side_by_side([goes_on, fails], 2, nobody)
    assert not multiprocessing.active_children()


def test_inside_such_a_process_there_are_no_further_ones():
    assert side_by_side([lambda tell: processors()], 2, nobody) == [1]
