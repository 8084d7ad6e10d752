"""The page of a simulation stands for itself: well-formed, whole, nothing from elsewhere."""

import re
from html.parser import HTMLParser

from tgpu.core.model.rules import BackfillMode, Rules
from tgpu.core.policies import order_policy
from tgpu.core.scheduling_config import SchedulingConfig
from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.jobs import Jobs
from tgpu.simulate.page import page
from tgpu.simulate.report import SimulatedRun, is_report, report
from tgpu.simulate.result import Result
from tgpu.simulate.run import Setting, simulate
from tgpu.simulate.synthetic import synthetic

VOID = {"meta"}


class Checker(HTMLParser):
    """Fails on tags that do not close in order."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.seen = []

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def a_document(jobs=200, trace="t.csv"):
    cluster = read_cluster("a=2x8,b=1x8")
    found = Jobs(synthetic(jobs, cluster, seed=3), cluster)
    setting = Setting(SchedulingConfig(order_policy("fifo"), Rules(backfill=BackfillMode.STRICT)))
    result = simulate(found.arrivals, cluster, setting)
    return report(
        SimulatedRun(trace, "c", "fifo", "strict", "fragmentation"), cluster, result
    ), result


def test_the_page_is_well_formed_and_has_every_plot():
    checker = Checker()
    checker.feed(page(*a_document()))
    assert checker.open == []
    assert checker.seen.count("svg") == 5
    assert checker.seen.count("polyline") == 5


def test_the_page_loads_nothing_and_runs_nothing():
    text = page(*a_document())
    assert "<script" not in text
    assert not re.search(r"(src|href|url)\s*[=(]", text)
    assert "http" not in text


def test_names_from_a_trace_cannot_break_the_page():
    text = page(*a_document(trace="<script>alert(1)</script>"))
    assert "<script" not in text
    assert "&lt;script&gt;" in text


def test_a_page_about_nothing_is_still_a_page():
    document, _ = a_document()
    empty = report(SimulatedRun("t", "c", "p", "q", "r"), read_cluster("1x8"), Result((), (), 0))
    assert "No job ended" in page(empty, Result((), (), 0))
    assert is_report(document)
