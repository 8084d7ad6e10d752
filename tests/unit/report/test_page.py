"""The page and the pictures of a report."""

import re
import sys
from random import Random

import pytest

from tests.unit.report.journals import DAY, HOUR, T0, Story, a_journal, a_node, in_order, nodes
from tests.unit.simulate.test_page import Checker
from tgpu.core.model.cause import Fault
from tgpu.core.model.job import Array
from tgpu.core.model.lifecycle import JobState
from tgpu.drawing.page import picture_style
from tgpu.drawing.palette import colours_of
from tgpu.drawing.plots import framed
from tgpu.report.collect import collect
from tgpu.report.figures import figures, use_by_gpu
from tgpu.report.page import page, pictures
from tgpu.report.plan import MOST_BARS, MOST_ROWS, Colours, gantt, gpu_rows
from tgpu.report.png import NoLibrary, png
from tgpu.report.prices import parse_prices

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
        Story("2", T0, tenant="nlp", user="ada")
        .start(T0, [2])
        .end(T0 + HOUR, JobState.FAILED, Fault.XID),
        Story("3", T0).start(T0 + 9 * HOUR),
    ]


def test_the_page_is_well_formed_and_has_every_plot():
    checker = Checker()
    checker.feed(made(read(*some())))
    assert checker.open == []
    assert checker.seen.count("h2") == 6 + 2
    # And the colours of two tenants, twice, and of two users.
    assert checker.seen.count("svg") == 6 + 4 + 2


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
    for words in (
        "There were no jobs.",
        "No job had a GPU.",
        "There was no GPU.",
        "No job started.",
    ):
        assert words in text


def test_names_cannot_break_the_page():
    found = read(
        Story("1", T0, tenant=EVIL, user=EVIL).start(T0, node=EVIL).end(T0 + HOUR),
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
    drawn = gantt(found, use_by_gpu(found), Colours.of_tenants(found, figures(found)))
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
    (track, *_) = gantt(found, use_by_gpu(found), Colours.of_tenants(found, figures(found))).tracks
    assert [(bar.low, bar.high) for bar in track.bars] == [(0.0, 0.5), (0.5, 1.0)]


def test_a_place_that_is_free_again_is_used_again():
    first = Story("1", T0, 500).start(T0, millis=500).end(T0 + HOUR)
    second = Story("2", T0, 500).start(T0 + 1, millis=500).end(T0 + 3 * HOUR)
    third = Story("3", T0, 500).start(T0 + 2 * HOUR, millis=500).end(T0 + 3 * HOUR)
    found = read(first, second, third)
    (track, *_) = gantt(found, use_by_gpu(found), Colours.of_tenants(found, figures(found))).tracks
    assert [bar.low for bar in track.bars] == [0.0, 0.5, 0.0]


def test_tenants_beyond_the_colours_share_one():
    stories = [
        Story(str(n), T0, tenant=f"t{n:02}").start(T0, [n % 4]).end(T0 + HOUR) for n in range(12)
    ]
    found = read(*stories)
    colours = Colours.of_tenants(found, figures(found))
    assert len(colours.names) == 7
    assert colours.keys()[-1] == ("rest", "others")


def key_of(found, which) -> dict[str, str]:
    return {name: css for css, name in which(found, figures(found)).keys()}  # noqa: SIM118


def test_a_name_has_its_colour_in_every_report():
    """Whoever comes later, whichever part of the time it is about, and of one tenant alone."""
    stories = [
        Story(str(n), T0 + n, tenant=f"t{n}", user=f"u{n}").start(T0 + n, [n % 4]).end(T0 + HOUR)
        for n in range(7)
    ]
    events = [*nodes(a_node()), *in_order(*stories)]
    until = T0 + 10 * HOUR
    whole = collect(a_journal(events, until=until), T0, until)
    early = collect(a_journal(events[:9], until=until), T0, until)
    only = collect(a_journal(events, until=until), T0, until, "t3")
    for which in (Colours.of_tenants, Colours.of_users):
        colours = key_of(whole, which)
        assert len(set(colours.values())) == 7
        for other in (key_of(early, which), key_of(only, which)):
            assert other
            assert other.items() <= colours.items()


def test_the_choice_of_colours_stays_what_it_is():
    assert colours_of(["vision", "nlp", "ada"]) == {"vision": "n7", "nlp": "n3", "ada": "n10"}
    assert ".n7 { fill: #" in picture_style()
    assert len(set(colours_of(map(str, range(16))).values())) == 16
    assert len(colours_of(map(str, range(40)))) == 40


def test_job_ids_are_under_the_pointer():
    text = made(read(*some(), names={"1": "train"}))
    assert "<title>job 1 train, vision, completed, 2.0 h</title>" in text
    assert "<title>job 2, ada of nlp, failed, 60 min</title>" in text
    assert "<title>vision: jobs 1, 3</title>" in text
    assert "<title>ada: job 2</title>" in text


def test_users_and_top_consumers_have_tables():
    sweep = [
        Story(f"7.{n}", T0, user="bob", array=Array("7", n)).start(T0, [n]).end(T0 + HOUR)
        for n in (1, 2)
    ]
    found = read(*some(), *sweep, names={"1": "train"})
    numbers = figures(found)
    assert [(u.user, u.tenant_id, u.jobs, u.gpu_hours) for u in numbers.users] == [
        ("", "vision", 2, 5),
        ("bob", "vision", 2, 2),
        ("ada", "nlp", 1, 1),
    ]
    assert [(j.job_id, j.jobs, j.gpu_hours) for j in numbers.top_jobs] == [
        ("1", 1, 4),
        ("7", 2, 2),
        ("2", 1, 1),
        ("3", 1, 1),
    ]
    text = page(found, numbers, pictures(found, numbers))
    assert "<h2>Users</h2>" in text
    assert "<td class=w>bob</td><td class=w>vision</td><td>2</td><td>2.00</td>" in text


def test_money_has_its_sign_and_types_their_prices():
    stories = [
        Story("1", T0).start(T0).end(T0 + HOUR),
        Story("2", T0).start(T0, node="h").end(T0 + HOUR),
    ]
    found = read(*stories, made=[a_node(), a_node("h", gpu_type="H100")])
    numbers = figures(found, parse_prices(["h100=4", "1.5"], "€", 0))
    assert (numbers.cost, numbers.tenants[0].cost, numbers.users[0].cost) == (5.5, 5.5, 5.5)
    assert "<b>€5.50</b><span>cost" in page(found, numbers, [])
    only = figures(found, parse_prices(["H100=4"], "EUR", 0))
    assert "<b>4.00 EUR</b><span>cost" in page(found, only, [])


def test_without_a_price_there_are_gpu_hours_alone():
    found = read(*some())
    numbers = figures(found, parse_prices([], "€", 0))
    assert numbers.cost is None
    text = page(found, numbers, [])
    assert "€" not in text
    assert "cost" not in text


@pytest.mark.parametrize("text", ["dear", "=3", "A100=", "-1", "A100=nan", "1e9"])
def test_what_is_no_price_is_refused(text):
    with pytest.raises(ValueError, match=r"price|type of GPU"):
        parse_prices([text], "", 0)


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
    bare = png(framed(use.svg.replace("area n7", "area none"), "", ()))
    assert plain != bare


def test_without_the_library_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(NoLibrary):
        png("<svg/>")
