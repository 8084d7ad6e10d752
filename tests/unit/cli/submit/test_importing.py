"""`tgpu import`."""

import json

import pytest


@pytest.fixture
def write(tmp_path):
    def write_file(text: str) -> str:
        path = tmp_path / "commands.txt"
        path.write_text(text)
        return str(path)

    return write_file


def test_every_line_is_sent_as_a_job(tgpu, service, write):
    outcome = tgpu("import", write("a 1\ngpus=2 X=1 b 2\n"), "--hold", "--tenant", "vision")
    assert outcome.code == 0
    assert "queued 2 jobs" in outcome.out
    first, second = service.bodies
    assert (first["command"], first["hold"]) == (["a", "1"], True)
    assert "gpu_count" not in first  # one is what the API takes by itself
    assert (second["command"], second["gpu_count"]) == (["b", "2"], 2)
    assert second["environment"] == {"X": "1"}
    assert first["tenant_id"] == "vision"


def test_with_a_mistake_nothing_is_sent_and_every_mistake_is_named(tgpu, service, write):
    outcome = tgpu("import", write("good\nbad | worse\ngpus=2\n"))
    assert outcome.code == 2
    assert "line 2" in outcome.err
    assert "line 3" in outcome.err
    assert service.bodies == []


def test_a_bad_value_is_found_before_anything_is_sent(tgpu, service, write):
    outcome = tgpu("import", write("good\ngpus=many x\n"))
    assert outcome.code == 2
    assert "line 2: --gpus" in outcome.err
    assert service.bodies == []


def test_a_dry_run_shows_and_sends_nothing(tgpu, service, write):
    outcome = tgpu("import", write("a 'b c'\n"), "--dry-run", "--gpus", "3")
    assert "a 'b c'" in outcome.out
    assert service.bodies == []
    (job,) = json.loads(tgpu("import", write("a\n"), "--dry-run", "--json").out)["jobs"]
    assert (job["line"], job["command"]) == (1, ["a"])


def test_dependencies_of_the_other_queue_become_ours(tgpu, service, write):
    text = (
        "ID   State      Output               E-Level  Time   Command [run=0/1]\n"
        "0    queued     (file)                               a\n"
        "1    queued     (file)                               [0]&& b\n"
    )
    assert tgpu("import", write(text)).code == 0
    assert service.bodies[1]["after"] == [{"job_id": "12"}]


def test_a_refusal_says_what_is_queued_already(tgpu, service, write):
    service.refusal = (400, "VALIDATION_ERROR", "queue: no such queue")
    outcome = tgpu("import", write("a\n"))
    assert outcome.code == 2
    assert "line 1" in outcome.err
    assert "0 lines before it are queued" in outcome.err


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_a_file_without_jobs_is_a_mistake(tgpu, service, write, text):
    assert tgpu("import", write(text)).code == 2


def test_a_file_that_cannot_be_read_is_named(tgpu, tmp_path):
    assert "no/such" in tgpu("import", f"{tmp_path}/no/such").err
    (tmp_path / "x").write_bytes(b"\xff\xfe")
    assert "not UTF-8" in tgpu("import", str(tmp_path / "x")).err


def test_what_is_said_to_be_a_listing_must_be_one(tgpu, write):
    assert tgpu("import", write("a\n"), "--format", "task-spooler").code == 2
