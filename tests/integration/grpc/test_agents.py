"""Real agents and a real service: they find each other, lose each other, and come back."""

import json
import subprocess
import sys

import pytest

from tests.integration.grpc.conftest import GrpcService
from tests.real_service import clean_environ, eventually


def tgpu(service: GrpcService, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tgpu", *words, "--api-url", service.url]
    return subprocess.run(
        command, capture_output=True, text=True, env=clean_environ(), check=False, timeout=60
    )


def test_an_agent_registers_its_machine_and_streams_its_readings(service, start_agent):
    start_agent("box", "sim:4xH100")
    node = service.node("box", "online")
    assert (node["source"], node["provider"], node["simulated"]) == ("agent", "simulated", True)
    assert (node["cpu_cores"], node["memory_mb"]) == (256, 2 * 1024 * 1024)
    assert [gpu["gpu_type"] for gpu in node["gpus"]] == ["H100"] * 4

    def measured() -> bool:
        return all(gpu["temperature_c"] for gpu in service.nodes()["box"]["gpus"])

    eventually(measured, "readings of the GPUs")
    first = service.nodes()["box"]["last_seen_at"]
    eventually(lambda: service.nodes()["box"]["last_seen_at"] > first, "another beat")


def test_agents_are_counted_and_their_gpus_never_given_to_jobs(service, start_agent):
    start_agent("one", "sim:4xH100")
    start_agent("two", "sim:8xB200")
    service.node("one", "online")
    service.node("two", "online")
    status = service.get("/cluster/status")
    assert (status["total_nodes"], status["online_nodes"]) == (3, 3)
    assert (status["total_gpus"], status["available_gpus"]) == (14, 2)
    refused = service.http.post("/api/v1/jobs", json={"gpu_count": 1, "gpu_type": "B200"})
    assert refused.status_code == 422
    assert [node["name"] for node in service.get("/nodes")["nodes"]] == ["local", "one", "two"]


def test_a_killed_agent_is_offline_after_a_while_and_online_when_it_returns(service, start_agent):
    agent = start_agent("box")
    service.node("box", "online")
    agent.kill()
    assert service.nodes()["box"]["state"] == "online"  # silent, and not yet for long
    offline = service.node("box", "offline")
    assert [gpu["temperature_c"] for gpu in offline["gpus"]] == [None] * 4  # no stale readings
    assert service.get("/cluster/status")["online_nodes"] == 1
    start_agent("box")
    service.node("box", "online")


def test_an_agent_finds_the_service_again_after_its_restart(service, start_agent):
    agent = start_agent("box")
    service.node("box", "online")
    service.kill()
    service.start()
    service.node("box", "online")
    assert agent.process.poll() is None
    # Its node is shown as it was before it is heard of again.
    # Its pauses grow while nobody answers: a service that is slow to start is found late.
    eventually(lambda: agent.said().count("registered") >= 2, "the agent to register again", 60)


def test_a_node_is_remembered_over_a_restart_of_the_service(service, start_agent):
    agent = start_agent("box")
    service.node("box", "online")
    agent.kill()
    service.restart()
    node = service.nodes()["box"]
    assert (node["state"], node["last_seen_at"], len(node["gpus"])) == ("offline", None, 4)


def test_an_agent_waits_for_a_service_that_is_not_there_yet(service, start_agent):
    service.kill()
    agent = start_agent("box")
    eventually(lambda: agent.log.exists() and "no service" in agent.said(), "it to notice")
    service.start()
    service.node("box", "online", seconds=60)


def test_term_ends_an_agent_cleanly(service, start_agent):
    agent = start_agent("box")
    service.node("box", "online")
    assert agent.terminate() == 0
    assert agent.said()[-1] == "stopped"


def test_term_ends_an_agent_that_has_no_service_too(service, start_agent):
    service.kill()
    agent = start_agent("box")
    eventually(lambda: agent.log.exists() and "no service" in agent.said(), "it to notice")
    assert agent.terminate() == 0


def test_a_second_agent_of_the_same_name_is_kept_out_until_the_first_is_gone(service, start_agent):
    first = start_agent("box", "sim:4xH100")
    service.node("box", "online")
    second = start_agent("box", "sim:1xA100")
    eventually(lambda: "no service" in second.said(), "the second to be refused")
    assert len(service.nodes()["box"]["gpus"]) == 4
    first.terminate()
    eventually(lambda: len(service.nodes()["box"]["gpus"]) == 1, "the second to be let in")


def test_the_nodes_are_listed_on_the_command_line(service, start_agent):
    agent = start_agent("box")
    service.node("box", "online")
    shown = tgpu(service, "nodes")
    assert shown.returncode == 0
    assert "4 simulated H100" in shown.stdout
    assert [line.split()[:2] for line in shown.stdout.splitlines()[1:]] == [
        ["local", "online"],
        ["box", "online"],
    ]
    assert tgpu(service, "nodes", "--forget", "box").returncode != 0
    agent.kill()
    service.node("box", "offline")
    assert tgpu(service, "nodes", "--forget", "box").stdout == "node box is forgotten\n"
    left = json.loads(tgpu(service, "nodes", "--json").stdout)
    assert [node["name"] for node in left["nodes"]] == ["local"]


def test_one_node_is_shown_and_an_unknown_one_is_not_found(service):
    assert service.get("/nodes/local")["source"] == "local"
    assert service.http.get("/api/v1/nodes/nobody").status_code == 404
    assert service.http.delete("/api/v1/nodes/local").status_code == 404


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--server", "http://x:1"], "--server"),
        (["--server", "x:99999"], "--server"),
        (["--server", "x", "--interval", "5"], "--interval"),
        (["--server", "x", "--gpus", "sim:nothing"], "--gpus"),
        ([], "--server"),
    ],
)
def test_options_that_cannot_be_are_refused(words, complaint):
    command = [sys.executable, "-m", "tgpu", "agent", *words]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert outcome.returncode == 2
    assert complaint in outcome.stderr
