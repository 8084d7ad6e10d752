"""Plots are well-formed, and say what they were told."""

import xml.etree.ElementTree as ET

import pytest

from tgpu.drawing import axes, plots
from tgpu.drawing.page import cards, html_page, keys, picture_style, table

EVIL = "<script>alert('x')</script>&\""
X = axes.linear(10, str)
Y = axes.linear(1, str)
EDGES = [0.0, 5.0, 10.0]


def drawn() -> dict[str, str]:
    bar = plots.Bar(EVIL, 0, 5, 0, 0.5, "c0", is_bad=True)
    return {
        "lines": plots.line_plot([plots.Line(EVIL, [(0, 0), (10, 1)], "a")], X, Y, EVIL),
        "stacked": plots.stacked([plots.Layer(EVIL, [0.5, 1], "c0")], EDGES, X, Y, EVIL),
        "bars": plots.bars([(EVIL, 1, EVIL)], EVIL),
        "gantt": plots.gantt([plots.Stripe(EVIL, 0, [(1, 2), (3, 4)])], X, EVIL),
        "heat map": plots.heat_map([plots.PlotRow(EVIL, [0.2, 1])], EDGES, X, EVIL),
        "tracks": plots.tracks([plots.Track(EVIL, [bar])], X, EVIL),
    }


@pytest.mark.parametrize("name", drawn())
def test_a_plot_is_well_formed_whatever_things_are_called(name):
    svg = drawn()[name]
    assert ET.fromstring(svg).tag == "svg"
    assert "<script" not in svg


@pytest.mark.parametrize("name", drawn())
def test_a_plot_that_stands_alone_is_well_formed(name):
    framed = ET.fromstring(plots.framed(drawn()[name], EVIL, [("c0", EVIL), ("c1", "b")]))
    assert EVIL in [text.text for text in framed.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize(
    "svg",
    [
        plots.line_plot([], X, Y, "x"),
        plots.bars([], "x"),
        plots.gantt([], X, "x"),
        plots.heat_map([], [0.0], X, "x"),
        plots.tracks([], X, "x"),
    ],
)
def test_nothing_to_draw_is_drawn_all_the_same(svg):
    assert ET.fromstring(svg).tag == "svg"


def test_what_is_written_at_the_end_of_a_bar_stays_inside():
    text = "60 min, 1,452 jobs, 109,221 GPU-hours"
    svg = ET.fromstring(plots.bars([("a", 10, text), ("b", 5, "x")], "x"))
    (written,) = [each for each in svg.iter("text") if each.text == text]
    assert float(written.attrib["x"]) + len(text) * 6 <= plots.WIDTH


def test_neighbours_in_a_heat_map_that_look_alike_are_one_piece():
    svg = plots.heat_map(
        [plots.PlotRow("a", [0.5] * 100 + [0.0] * 100)], list(map(float, range(201))), X, ""
    )
    assert svg.count('class="busy"') == 1


def test_a_little_use_is_seen():
    svg = plots.heat_map([plots.PlotRow("a", [0.01])], [0.0, 1.0], X, "")
    assert svg.count('class="busy"') == 1


def test_keys_of_a_picture_that_do_not_fit_go_on_below():
    names = [("c0", "a name that is quite long") for _ in range(8)]
    framed = ET.fromstring(plots.framed(drawn()["bars"], "t", names))
    rows = {
        rect.attrib["y"]
        for rect in framed.iter("{http://www.w3.org/2000/svg}rect")
        if rect.attrib.get("width") == "10"
    }
    assert len(rows) == 3


def test_the_pieces_of_a_page_escape_what_they_are_given():
    text = html_page(EVIL, [table([EVIL], [[EVIL]]), cards([(EVIL, EVIL)]), keys([("c0", EVIL)])])
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 6


def test_the_style_of_pictures_needs_no_variables():
    assert "var(" not in picture_style()
    assert "$" not in picture_style()
