"""Several nodes over REST: their GPUs by name, pausing, health, monitoring, agents' machines."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.api.http import Api, an_api, error_of
from tests.unit.service.world import a_box
from tgpu.core.errors import Conflict, NotFound
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Request, Where
from tgpu.core.model.node import GpuName
from tgpu.devices.api import GpuReading
from tgpu.service.hardware.agents import Readings, Registration
from tgpu.store.memory import MemoryStore

JOBS = "/api/v1/jobs"
H100 = GpuReading(0, "GPU-0", "NVIDIA H100", "H100", 80_000)


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    """Three machines: the service's own with 2 GPUs, b with 2, c with 1."""
    nodes = {"b": "sim:2xA100", "c": "sim:1xH100"}
    async with an_api(gpus="sim:2xA100", nodes=nodes) as made:
        yield made


async def get(api: Api, path: str) -> Any:
    answer = await api.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(api: Api, path: str, **body: Any) -> Any:
    answer = await api.post(path, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


async def gpus_of(api: Api) -> dict[str, Any]:
    return {gpu["gpu_name"]: gpu for gpu in (await get(api, "/api/v1/gpus"))["gpus"]}


def a_registration(name: str = "far") -> Registration:
    return Registration(name, "1.0", "nvml", False, 8, 1024, (H100,), "10.0.0.7")


# -- which GPU --------------------------------------------------------------------------------


async def test_every_gpu_has_its_nodes_name_the_services_own_machine_first(api: Api) -> None:
    assert list(await gpus_of(api)) == ["local/0", "local/1", "b/0", "b/1", "c/0"]
    status = await get(api, "/api/v1/cluster/status")
    assert (status["total_nodes"], status["online_nodes"]) == (3, 3)
    assert (status["total_gpus"], status["available_gpus"]) == (5, 5)


async def test_a_gpu_of_another_node_is_paused_and_takes_no_job(api: Api) -> None:
    paused = await post(api, "/api/v1/gpus/b/1/pause", reason="fan")
    assert (paused["gpu_name"], paused["paused"], paused["status"]) == ("b/1", "fan", "paused")
    states = {name: gpu["status"] for name, gpu in (await gpus_of(api)).items()}
    assert [name for name, state in states.items() if state != "free"] == ["b/1"]
    job = await post(api, JOBS, command=["t"], gpu_count=1, nodes=["b"])
    other = await post(api, JOBS, command=["t"], gpu_count=1, nodes=["b"])
    await api.box.tick()
    assert (await get(api, f"{JOBS}/{job['job_id']}"))["gpu_names"] == ["b/0"]
    assert (await get(api, f"{JOBS}/{other['job_id']}"))["state"] == "pending"
    again = await post(api, "/api/v1/gpus/b/1/resume")
    assert again["paused"] is None
    assert await api.box.tick(1) == [other["job_id"]]


@pytest.mark.parametrize("action", ["pause", "resume"])
async def test_a_bare_index_is_refused_with_all_there_are(api: Api, action: str) -> None:
    error = error_of(await api.post(f"/api/v1/gpus/0/{action}"), 422, "VALIDATION_ERROR")
    assert error["message"] == (
        "GPU: jobs run on several nodes, so name GPUs with their node: b/0-1,c/0,local/0-1 (got 0)"
    )
    assert not any(gpu["paused"] for gpu in (await gpus_of(api)).values())


@pytest.mark.parametrize("name", ["b/2", "nowhere/0"])
async def test_a_gpu_that_is_not_there_is_not_found(api: Api, name: str) -> None:
    error = error_of(await api.post(f"/api/v1/gpus/{name}/pause"), 404, "NOT_FOUND")
    assert error["message"] == f"no GPU named '{name}'; there are: b/0-1,c/0,local/0-1"


async def test_a_bare_index_means_this_machine_while_there_is_one() -> None:
    async with an_api(gpus="sim:2xA100") as api:
        assert (await post(api, "/api/v1/gpus/1/pause"))["gpu_name"] == "local/1"
        assert (await post(api, "/api/v1/gpus/local/1/resume"))["paused"] is None
        job = await post(api, JOBS, command=["t"], allowed_gpus=[1, "local/0"], gpu_count=2)
        await api.box.tick()
        found = await get(api, f"{JOBS}/{job['job_id']}")
        assert (found["gpus"], found["gpu_text"]) == ([0, 1], "0-1")
        assert found["constraints"]["allowed_gpus"] == [1, "local/0"]


async def test_a_job_gets_the_gpus_that_it_names(api: Api) -> None:
    job = await post(api, JOBS, command=["t"], allowed_gpus=["b/1", "c/0"], gpu_type="A100")
    other = await post(api, JOBS, command=["t"], excluded_gpus=["local/0", "local/1", "b/0"])
    await api.box.tick()
    assert (await get(api, f"{JOBS}/{job['job_id']}"))["gpu_names"] == ["b/1"]
    assert (await get(api, f"{JOBS}/{other['job_id']}"))["gpu_names"] == ["c/0"]


@pytest.mark.parametrize("field", ["allowed_gpus", "excluded_gpus"])
async def test_a_job_with_a_bare_index_is_refused_where_it_may_mean_several(
    api: Api, field: str
) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], field: [0, "b/1"]})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"] == (
        f"{field}: jobs run on several nodes, so name GPUs with their node: b/0-1,c/0,local/0-1 "
        "(got 0)"
    )


async def test_a_job_for_gpus_that_are_not_there_is_told_which_are(api: Api) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], "allowed_gpus": ["b/7"]})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert "there is no GPU b/7; there are 5: b/0-1,c/0,local/0-1" in error["message"]


@pytest.mark.parametrize("word", ["b", "b/", "/1", "b/x", "0-3", 1.5, None, {}])
async def test_what_is_no_gpu_is_refused_with_what_one_looks_like(api: Api, word: object) -> None:
    answer = await api.post(JOBS, json={"command": ["t"], "allowed_gpus": [word]})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert 'must be an index like 3, or with several nodes a name like "b/3"' in error["message"]


# -- health and monitoring ----------------------------------------------------------------------


async def test_the_health_of_a_gpu_elsewhere_is_its_own(api: Api) -> None:
    api.box.gpus_of["b"].set(0, lost=True)
    await api.box.service.gpu_monitor.look()
    found = await gpus_of(api)
    assert [name for name, gpu in found.items() if gpu["status"] == "problem"] == ["b/0"]
    health = await get(api, "/api/v1/health")
    assert health["status"] == "degraded"
    assert [problem.partition(": ")[0] for problem in health["problems"]] == ["GPU b/0"]
    job = await post(api, JOBS, command=["t"], nodes=["b"], gpu_count=1)
    await api.box.tick()
    assert (await get(api, f"{JOBS}/{job['job_id']}"))["gpu_names"] == ["b/1"]


async def test_an_error_of_a_gpu_is_remembered_for_its_own_node() -> None:
    """Simulated GPUs of two nodes have the same UUIDs."""
    store = MemoryStore()
    async with a_box(store=store, gpus="sim:1xA100", nodes={"b": "sim:1xA100"}) as box:
        box.gpus_of["b"].set(0, xids=[79])
        await box.service.gpu_monitor.look()
        nodes = box.service.state.ledger.nodes
        assert nodes[NodeId("b")].node.gpus[0].problem
        assert nodes[NodeId("local")].node.gpus[0].problem is None
    async with a_box(store=store, gpus="sim:1xA100", nodes={"b": "sim:1xA100"}) as box:
        known = {h.node_id: h._health for h in box.service.gpu_monitor.known_hardware()}
        assert (len(known[NodeId("local")]), len(known[NodeId("b")])) == (0, 1)


async def test_a_job_that_failed_on_another_node_is_told_of_the_error_there(api: Api) -> None:
    job = await post(api, JOBS, command=["t"], allowed_gpus=["b/1"])
    key = await api.box.run(job["job_id"])
    api.box.gpus_of["b"].set(1, xids=[79])
    await api.box.service.gpu_monitor.look()
    api.box.engine.finish(key, exit_code=1)
    await api.box.service.wait_until_over(job["job_id"], 10)
    cause = (await get(api, f"{JOBS}/{job['job_id']}"))["cause"]
    assert "GPU b/1: " in cause


async def test_how_gpus_elsewhere_feel_is_measured(api: Api) -> None:
    api.box.gpus_of["b"].set(1, temperature_c=71, utilisation_percent=60)
    await api.box.service.gpu_monitor.look()
    found = await gpus_of(api)
    assert (found["b/1"]["temperature_c"], found["b/1"]["utilisation_percent"]) == (71, 60)
    assert found["local/1"]["temperature_c"] != 71
    used = {gpu["gpu_name"]: gpu for gpu in (await get(api, "/api/v1/cluster/metrics"))["gpus"]}
    assert used["b/1"]["peak_percent"] == 60
    assert used["local/1"]["peak_percent"] == 0
    nodes = {node["name"]: node for node in (await get(api, "/api/v1/nodes"))["nodes"]}
    assert nodes["b"]["gpus"][1]["temperature_c"] == 71
    assert (nodes["b"]["engine"], nodes["b"]["no_jobs"]) == ("fake", None)


async def test_a_process_number_elsewhere_is_not_looked_up_here(api: Api) -> None:
    """It is another process there."""
    import os

    from tgpu.devices.api import GpuProcess

    api.box.gpus_of["b"].set(0, processes=[GpuProcess(os.getpid(), 100)])
    await api.box.service.gpu_monitor.look()
    (process,) = (await gpus_of(api))["b/0"]["processes"]
    assert (process["pid"], process["user"], process["job_id"]) == (os.getpid(), None, None)


# -- machines of agents --------------------------------------------------------------------------


async def test_a_machine_that_only_reports_is_shown_with_the_reason_and_never_chosen(
    api: Api,
) -> None:
    service = api.box.service
    await service.agents.register(a_registration(), "i1")
    await service.agent_nodes.observe("far")
    assert service.state.ledger.reporting.keys() == {"far"}
    node = await get(api, "/api/v1/nodes/far")
    assert (node["engine"], node["no_jobs"]) == ("", "no engine runs jobs on it")
    assert "far/0" not in await gpus_of(api)
    status = await get(api, "/api/v1/cluster/status")
    assert (status["total_nodes"], status["total_gpus"], status["available_gpus"]) == (4, 6, 5)
    answer = await api.post(JOBS, json={"command": ["t"], "nodes": ["far"]})
    assert answer.status_code == 422, answer.text
    error = error_of(await api.post("/api/v1/gpus/far/0/pause"), 409, "CONFLICT")
    assert error["message"] == "node far only reports: no engine runs jobs on it"


async def test_it_takes_jobs_once_an_engine_runs_them_there(api: Api) -> None:
    service = api.box.service
    await service.agents.register(a_registration(), "i1")
    await service.agent_nodes.observe("far")
    service.engine_of = lambda name: "fake"
    await service.agent_nodes.look()
    assert not service.state.ledger.reporting
    job = await post(api, JOBS, command=["t"], allowed_gpus=["far/0"])
    await api.box.run(job["job_id"])
    assert (await get(api, f"{JOBS}/{job['job_id']}"))["gpu_names"] == ["far/0"]
    assert (await post(api, "/api/v1/gpus/far/0/pause"))["paused"]
    with pytest.raises(Conflict, match="node far has jobs"):
        await service.agent_nodes.forget("far")
    # Its engine is gone: what runs keeps its place, and nothing new starts there.
    service.engine_of = lambda name: ""
    await service.agent_nodes.look()
    assert "no engine" in (await gpus_of(api))["far/0"]["problem"]


async def test_an_agent_that_falls_silent_makes_its_gpus_a_problem_until_it_is_heard(
    api: Api,
) -> None:
    service = api.box.service
    now = 1000.0
    service.agents._now, service.agents._opened = lambda: now, now
    service.engine_of = lambda name: "fake"
    await service.agents.register(a_registration(), "i1")
    await service.agent_nodes.observe("far")
    assert (await gpus_of(api))["far/0"]["status"] == "free"
    now += 31
    await service.agent_nodes.look()
    assert (await gpus_of(api))["far/0"]["problem"] == "its node does not report"
    status = await get(api, "/api/v1/cluster/status")
    assert (status["total_nodes"], status["online_nodes"]) == (4, 3)
    service.agents.hear("far", "i1", Readings((replace(H100, temperature_c=40),)))
    await service.agent_nodes.observe("far")
    found = (await gpus_of(api))["far/0"]
    assert (found["status"], found["temperature_c"]) == ("free", 40)


async def test_a_new_service_knows_its_nodes_again_and_forgets_those_it_is_told_to() -> None:
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.service.agents.register(a_registration(), "i1")
        await box.service.agent_nodes.observe("far")
    async with a_box(store=store) as box:
        service = box.service
        assert service.state.ledger.reporting[NodeId("far")].gpus[0].problem is None
        await service.agent_nodes.forget("far")
        assert not service.state.ledger.reporting
        with pytest.raises(NotFound):
            service.agents.get("far")
    async with a_box(store=store) as box:
        assert not box.service.state.ledger.reporting


async def test_an_agent_of_an_older_version_is_a_node_from_the_next_start_on() -> None:
    """There, what it is was on record, and no node."""
    store = MemoryStore()
    async with a_box(store=store) as box:
        await box.service.agents.register(a_registration(), "i1")
        assert not box.service.state.ledger.reporting
    async with a_box(store=store) as box:
        (gpu,) = box.service.state.ledger.reporting[NodeId("far")].gpus
        assert (gpu.gpu_type, gpu.problem) == ("H100", None)  # it may well be heard in a moment


async def test_a_node_that_nothing_is_known_of_any_more_takes_no_job() -> None:
    store = MemoryStore()
    async with a_box(store=store, gpus="sim:1xA100", nodes={"b": "sim:4xA100"}):
        pass
    async with a_box(store=store, gpus="sim:1xA100") as box:
        ledger = box.service.state.ledger
        assert (list(ledger.nodes), list(ledger.reporting)) == (["local"], ["b"])
    async with a_box(store=store, gpus="sim:1xA100", nodes={"b": "sim:4xA100"}) as box:
        ledger = box.service.state.ledger
        assert (sorted(ledger.nodes), list(ledger.reporting)) == (["b", "local"], [])


async def test_beats_that_change_nothing_are_not_recorded(api: Api) -> None:
    service = api.box.service
    await service.agents.register(a_registration(), "i1")
    await service.agent_nodes.observe("far")
    before = service.feed.last_seq
    for celsius in (40, 90):
        service.agents.hear("far", "i1", Readings((replace(H100, temperature_c=celsius),)))
        await service.agent_nodes.observe("far")
        await service.agent_nodes.look()
    assert service.feed.last_seq == before


async def test_an_agent_cannot_take_the_name_of_a_machine_that_is_looked_after(api: Api) -> None:
    for name in ("local", "b"):
        with pytest.raises(Exception, match=r"a node's name is .*, and not 'b', and not 'c'"):
            await api.box.service.agents.register(a_registration(name), "i1")


# -- gangs -----------------------------------------------------------------------------------------


async def test_a_gang_is_idle_only_if_it_does_nothing_on_all_its_nodes() -> None:
    from tgpu.core.hardware.idle import IdleRules
    from tgpu.service.hardware.job_watch import WatchRules

    rules = WatchRules(IdleRules(window_ms=1000))
    async with an_api(gpus="sim:1xA100", nodes={"b": "sim:1xA100"}, watch=rules) as api:
        box = api.box
        job = await post(api, JOBS, command=["t"], workers=2, gpu_count=1)
        await box.run(job["job_id"])

        async def noted(at: int, local: int, b: int) -> str | None:
            box.gpus_of["local"].set(0, utilisation_percent=local)
            box.gpus_of["b"].set(0, utilisation_percent=b)
            await box.tick(at)
            await box.service.gpu_monitor.look()
            return (await box.service.job(job["job_id"])).progress.cause

        assert await noted(1, 0, 90) is None
        assert await noted(5000, 0, 90) is None
        assert await noted(5500, 0, 0) is None
        assert await noted(9000, 0, 0) == "idle: GPU b/0, local/0 was idle for 1 s"


async def test_what_jobs_want_of_nodes_and_gpus_survives_a_restart() -> None:
    store = MemoryStore()
    where = Where(gpus=(GpuName(NodeId("b"), 1),))
    nodes = {"b": "sim:2xA100"}
    from tests.unit.service.world import a_submission

    async with a_box(store=store, nodes=nodes) as box:
        job_id = await box.submit(a_submission("t", request=Request(1000, where=where)))
    async with a_box(store=store, nodes=nodes) as box:
        await box.tick()
        placement = (await box.service.job(job_id)).progress.placement
        assert placement is not None
        assert placement.gpus() == (("b", 1),)
