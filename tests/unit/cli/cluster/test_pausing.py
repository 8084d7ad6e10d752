"""GPUs are named by index, UUID or node; a drained node remembers what was paused before."""

import json

import pytest

from tests.unit.cli.builders import a_gpu, some_gpus
from tests.unit.cli.screen_service import ScreenService
from tgpu.cli import connect


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> ScreenService:
    fake = ScreenService(gpus=some_gpus(a_gpu(0, uuid="GPU-ab1"), a_gpu(1, uuid="GPU-ab2")))
    monkeypatch.setattr(connect, "open_client", lambda *_, **__: fake.client())
    return fake


@pytest.mark.parametrize(
    ("words", "paused"),
    [
        (["1"], ["pause 1"]),
        (["GPU-ab2"], ["pause 1"]),
        (["gpu-AB2"], ["pause 1"]),
        (["local"], ["pause 0", "pause 1"]),
        (["0-1"], ["pause 0", "pause 1"]),
        (["0,1"], ["pause 0", "pause 1"]),
        (["1", "GPU-ab2", "0"], ["pause 1", "pause 0"]),
    ],
)
def test_a_gpu_goes_by_index_uuid_or_its_node(tgpu, service, words, paused):
    assert tgpu("pause-gpu", *words).code == 0
    assert service.changes == paused


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("GPU-ab", "matches several UUIDs, of GPUs 0, 1"),
        ("fast-one", "there is no GPU or node named"),
        ("1-0", "1 is above 0; write 0-1"),
    ],
)
def test_a_word_that_names_none_or_several_changes_nothing(tgpu, service, word, complaint):
    outcome = tgpu("pause-gpu", "0", word)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert service.changes == []


def test_a_pause_says_its_reason_and_how_to_end_it(tgpu, service):
    outcome = tgpu("pause-gpu", "1", "--reason", "fan is loud")
    assert outcome.out == "GPU 1 is paused: fan is loud\n"
    assert "tgpu resume-gpu 1" in outcome.err
    assert tgpu("resume-gpu", "1").out == "GPU 1 takes jobs again (now free)\n"


def test_one_gpu_is_an_object_for_programs_and_several_are_a_list(tgpu, service):
    assert json.loads(tgpu("pause-gpu", "1", "--json").out)["index"] == 1
    assert [gpu["index"] for gpu in json.loads(tgpu("resume-gpu", "local", "--json").out)] == [0, 1]


def test_a_drained_node_takes_no_jobs_until_that_is_undone(tgpu, service):
    tgpu("pause-gpu", "0", "--reason", "fan is loud")
    outcome = tgpu("drain", "--reason", "new driver")
    assert outcome.out == "node local takes no new jobs: 1 of 2 GPUs (1 paused before)\n"
    assert [gpu.paused for gpu in service.gpus.gpus] == ["fan is loud", "drained: new driver"]
    assert tgpu("drain", "local", "--undo").out == "GPU 1 takes jobs again (now free)\n"
    assert [gpu.paused for gpu in service.gpus.gpus] == ["fan is loud", None]


def test_draining_twice_changes_the_reason(tgpu, service):
    tgpu("drain")
    tgpu("drain", "--reason", "new fans")
    assert {gpu.paused for gpu in service.gpus.gpus} == {"drained: new fans"}


def test_nothing_to_undo_says_so(tgpu, service):
    outcome = tgpu("drain", "--undo")
    assert (outcome.code, outcome.out) == (0, "")
    assert "no GPU is drained" in outcome.err


@pytest.mark.parametrize(
    ("node", "complaint"),
    [("box-3", "only reports"), ("nowhere", "there is no node named 'nowhere'")],
)
def test_a_node_without_jobs_cannot_be_drained(tgpu, service, node, complaint):
    outcome = tgpu("drain", node)
    assert outcome.code == 2
    assert complaint in outcome.err
    assert service.changes == []


# -- several nodes --------------------------------------------------------------------------------


@pytest.fixture
def nodes(service: ScreenService) -> ScreenService:
    """Two of two GPUs each."""
    service.gpus = some_gpus(
        *(
            a_gpu(index, uuid=f"GPU-{node}{index}", node=node, gpu_name=f"{node}/{index}")
            for node in ("local", "b")
            for index in (0, 1)
        )
    )
    return service


@pytest.mark.parametrize(
    ("word", "paused"),
    [
        ("b/1", ["pause b/1"]),
        ("b/0-1", ["pause b/0", "pause b/1"]),
        ("b/0,local/1", ["pause b/0", "pause local/1"]),
        ("GPU-b1", ["pause b/1"]),
        ("b", ["pause b/0", "pause b/1"]),
    ],
)
def test_a_gpu_of_a_node_goes_by_its_name(tgpu, nodes, word, paused):
    outcome = tgpu("pause-gpu", word)
    assert outcome.code == 0, outcome.err
    assert nodes.changes == paused
    name = paused[0].removeprefix("pause ")
    assert outcome.out.splitlines()[0] == f"GPU {name} is paused: paused by an operator"
    assert "tgpu resume-gpu " + " ".join(p.removeprefix("pause ") for p in paused) in outcome.err


def test_a_node_among_several_must_be_named_to_be_drained(tgpu, nodes):
    outcome = tgpu("drain")
    assert outcome.code == 2
    assert "jobs run on several nodes" in outcome.err
    assert "name the node to drain: local, b" in outcome.err
    assert nodes.changes == []
    outcome = tgpu("drain", "b")
    assert outcome.out == "node b takes no new jobs: 2 of 2 GPUs\n"
    assert "tgpu drain b --undo" in outcome.err
    assert nodes.changes == ["pause b/0", "pause b/1"]
    assert tgpu("drain", "b", "--undo").out.splitlines() == [
        "GPU b/0 takes jobs again (now free)",
        "GPU b/1 takes jobs again (now free)",
    ]


def test_a_word_that_names_nothing_is_told_the_nodes(tgpu, nodes):
    outcome = tgpu("pause-gpu", "fast-one")
    assert outcome.code == 2
    assert "or one of the nodes local, b" in outcome.err
