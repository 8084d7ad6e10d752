"""The page and the pictures of a report."""

import re
import sys
from random import Random

import pytest

from tests.unit.report.journals import DAY, HOUR, T0, Story, a_journal, a_node, in_order, nodes
from tests.unit.simulate.test_page import Checker
from tgpu.core.cause import Fault
from tgpu.core.lifecycle import JobState
from tgpu.drawing.plots import framed
from tgpu.report.collect import collect
from tgpu.report.figures import figures, use_by_gpu
from tgpu.report.page import page, pictures
from tgpu.report.plan import MOST_BARS, MOST_ROWS, Colours, gantt, gpu_rows
from tgpu.report.png import NoLibrary, png

EVIL = "<script>alert(1)</script>"


def read(*stories: Story, until=T0 + 10 * HOUR, made=None, names=None):
    events = [*nodes(*(made or [a_node()])), *in_order(*stories)]
    return collect(a_journal(events, until=until, names=names, price=1.0), T0, until)


def made(found) -> str:
    numbers = figures(found)
    return page(found, numbers, pictures(found, numbers))


def some() -> list[Story]:
    return [
        Story("1", T0).start(T0 + HOUR, [0, 1]).end(T0 + 3 * HOUR),
        Story("2", T0, tenant="nlp").start(T0, [2]).end(T0 + HOUR, JobState.FAILED, Fault.XID),
        Story("3", T0).start(T0 + 9 * HOUR),
    ]


def test_the_page_is_well_formed_and_has_every_plot():
    checker = Checker()
    checker.feed(made(read(*some())))
    assert checker.open == []
    assert checker.seen.count("h2") == 5
    assert checker.seen.count("svg") == 5 + 4  # and the colours of two tenants, twice


def test_the_page_loads_nothing_and_runs_nothing():
    text = made(read(*some()))
    assert "<script" not in text
    assert not re.search(r"(src|href|url)\s*[=(]", text)
    assert "http" not in text


def test_the_numbers_stand_first():
    text = made(read(*some()))
    for card in (
        "<b>3</b><span>jobs submitted",
        "<b>6.00</b><span>GPU-hours",
        "<b>6.00</b><span>cost",
    ):
        assert card in text


@pytest.mark.parametrize("stories", [[], [Story("1", T0)], some()[:1]], ids=["no", "waits", "one"])
def test_little_to_show_is_a_page_too(stories):
    checker = Checker()
    checker.feed(made(read(*stories)))
    assert checker.open == []


def test_an_empty_window_says_that_nothing_was_there():
    text = made(collect(a_journal([], until=T0), T0 - DAY, T0))
    for words in ("No job was there.", "No job had a GPU.", "There was no GPU.", "No job started."):
        assert words in text


def test_names_cannot_break_the_page():
    found = read(
        Story("1", T0, tenant=EVIL).start(T0, node=EVIL).end(T0 + HOUR),
        made=[a_node(EVIL)],
        names={"1": EVIL},
    )
    text = made(found)
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_failed_job_ends_in_red():
    assert made(read(*some())).count('class="bad"') == 1


# -- how much is drawn ---------------------------------------------------------------------------


def many(jobs: int, machines: int, gpus: int):
    random = Random(7)
    machines_ = [a_node(f"node-{n:03}", gpus) for n in range(machines)]
    stories = []
    for number in range(jobs):
        at = T0 + number
        place = f"node-{random.randrange(machines):03}"
        story = Story(str(number), at).start(at, [random.randrange(gpus)], place)
        stories.append(story.end(at + random.randrange(1, HOUR)))
    return read(*stories, made=machines_)


def test_of_many_stretches_the_longest_are_drawn_and_the_page_says_so():
    found = many(MOST_BARS + 500, 2, 4)
    drawn = gantt(found, use_by_gpu(found), Colours(figures(found)))
    assert sum(len(track.bars) for track in drawn.tracks) == MOST_BARS
    assert drawn.note == "Shown are the 4,000 longest of 4,500 stretches."
    assert drawn.note in made(found)
    assert len(made(found)) < 1_500_000


def test_of_many_gpus_a_row_is_a_node():
    found = many(50, 20, 4)
    drawn = gpu_rows(use_by_gpu(found))
    assert len(drawn.rows) == 20
    assert "a row is a node" in drawn.note
    assert "the 64 busiest of 80 GPUs" in made(found)


def test_of_many_nodes_the_first_are_shown():
    drawn = gpu_rows(use_by_gpu(many(50, 100, 1)))
    assert len(drawn.rows) == MOST_ROWS
    assert "The first 64 of 100 nodes are shown." in drawn.note


def test_jobs_that_share_a_gpu_lie_on_each_other():
    stories = [
        Story(str(n), T0, 500).start(T0 + n, millis=500).end(T0 + HOUR + n) for n in range(2)
    ]
    found = read(*stories)
    (track, *_) = gantt(found, use_by_gpu(found), Colours(figures(found))).tracks
    assert [(bar.low, bar.high) for bar in track.bars] == [(0.0, 0.5), (0.5, 1.0)]


def test_a_place_that_is_free_again_is_used_again():
    first = Story("1", T0, 500).start(T0, millis=500).end(T0 + HOUR)
    second = Story("2", T0, 500).start(T0 + 1, millis=500).end(T0 + 3 * HOUR)
    third = Story("3", T0, 500).start(T0 + 2 * HOUR, millis=500).end(T0 + 3 * HOUR)
    found = read(first, second, third)
    (track, *_) = gantt(found, use_by_gpu(found), Colours(figures(found))).tracks
    assert [bar.low for bar in track.bars] == [0.0, 0.5, 0.0]


def test_tenants_beyond_the_colours_share_one():
    stories = [
        Story(str(n), T0, tenant=f"t{n:02}").start(T0, [n % 4]).end(T0 + HOUR) for n in range(12)
    ]
    colours = Colours(figures(read(*stories)))
    assert len(colours.tenants) == 7
    assert colours.keys()[-1] == ("c7", "others")


# -- pictures ------------------------------------------------------------------------------------


def test_every_plot_becomes_a_png():
    found = read(*some())
    for picture in pictures(found, figures(found)):
        made_of_it = png(framed(picture.svg, picture.title, picture.keys))
        assert made_of_it.startswith(b"\x89PNG\r\n\x1a\n")
        width = int.from_bytes(made_of_it[16:20], "big")
        assert width == 1440


def test_a_png_has_the_colours_of_the_style():
    found = read(*some())
    (use, *_) = pictures(found, figures(found))
    plain = png(framed(use.svg, "", ()))
    bare = png(framed(use.svg.replace("c0", "none"), "", ()))
    assert plain != bare


def test_without_the_library_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(NoLibrary):
        png("<svg/>")
