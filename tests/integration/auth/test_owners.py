"""What members of a tenant may do to each other's jobs, over REST and gRPC."""

from typing import Any, get_args

import grpc
import pytest

from tests.integration.auth.door import OURS, THEIRS, Door, a_door, a_token, bearer
from tests.integration.auth.test_grpc_gate import a_port
from tgpu.core.model.ids import TenantId
from tgpu.core.model.tenant import MembersSee, Tenant
from tgpu.wire import scheduler_pb2 as pb
from tgpu.wire.selection_v1 import ChangeName

CHANGES = [
    ("DELETE", "", None),
    ("PATCH", "", {"priority": 1}),
    ("POST", "/hold", None),
    ("POST", "/release", None),
    ("POST", "/pause", None),
    ("POST", "/resume", None),
    ("POST", "/complete", None),
    ("POST", "/checkpoint", None),
    ("POST", "/rerun", None),
]


def who(name: str, role: str = "user", *tenants: str) -> dict[str, str]:
    return bearer(a_token(role, tenants or (OURS,), sub=name))


def tenants(members_see: MembersSee = MembersSee.JOBS) -> tuple[Tenant, ...]:
    return Tenant(TenantId(OURS), members_see=members_see), Tenant(TenantId(THEIRS))


async def submitted(door: Door, name: str, job_id: str, **fields: Any) -> None:
    body = {"job_id": job_id, "tenant_id": OURS, **fields}
    answer = await door.post("/api/v1/jobs", json=body, headers=who(name))
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_member_changes_nobody_elses_job(method: str, path: str, body: Any) -> None:
    async with a_door(tenants=tenants()) as door:
        await submitted(door, "ada", "hers", hold=True)
        answer = await door.request(
            method, f"/api/v1/jobs/hers{path}", json=body, headers=who("bob")
        )
        assert answer.status_code == 403, answer.text
        assert "job hers is ada's: only ada" in answer.json()["error"]["message"]
        assert (await door.get("/api/v1/jobs/hers", headers=who("bob"))).json()["held"]


@pytest.mark.parametrize(
    "headers",
    [who("ada"), who("pi", "admin"), who("op", "operator"), bearer(a_token("operator"))],
    ids=["owner", "tenant admin", "tenant operator", "operator"],
)
async def test_the_owner_the_tenants_admins_and_operators_do(headers: dict[str, str]) -> None:
    async with a_door(tenants=tenants()) as door:
        await submitted(door, "ada", "hers")
        for method, path, body in (*CHANGES[1:3], CHANGES[-1], CHANGES[0]):
            answer = await door.request(
                method, f"/api/v1/jobs/hers{path}", json=body, headers=headers
            )
            assert answer.status_code in (200, 201), answer.text


@pytest.mark.parametrize("to", ["shell", "attach"])
async def test_who_enters_a_job_is_its_owner(to: str) -> None:
    async with a_door(tenants=tenants(MembersSee.LOGS)) as door:
        await submitted(door, "ada", "hers")
        answers = [
            (await door.get(f"/api/v1/jobs/hers?to={to}", headers=headers)).status_code
            for headers in (who("ada"), who("pi", "admin"), who("bob"), who("eve", "viewer"))
        ]
        assert answers == [200, 200, 403, 403]


async def test_the_plain_paths_ask_the_same() -> None:
    async with a_door(tenants=tenants()) as door:
        plain = {"job_id": "p", "tenant_id": OURS, "gpu_type": "A100", "gpus": 1, "priority": 1}
        answer = await door.post("/jobs", json={**plain, "submitted_at": 0}, headers=who("ada"))
        assert answer.status_code == 201, answer.text
        assert (await door.post("/jobs/p/complete", headers=who("bob"))).status_code == 403
        listed = await door.get("/api/v1/jobs?user=ada", headers=who("bob"))
        assert [job["job_id"] for job in listed.json()["jobs"]] == ["p"]


async def test_a_members_environment_is_their_own() -> None:
    async with a_door(tenants=tenants()) as door:
        await submitted(door, "ada", "hers", environment={"PLAN": "b"})
        for url in ("/api/v1/jobs/hers", "/api/v1/jobs/hers/wait?timeout=0"):
            assert (await door.get(url, headers=who("bob"))).json()["environment"] == {}
            assert (await door.get(url, headers=who("ada"))).json()["environment"] == {"PLAN": "b"}
        listed = await door.get("/api/v1/jobs", headers=who("bob"))
        assert listed.json()["jobs"][0]["environment"] == {}


async def test_logs_are_the_owners_unless_the_tenant_shares_them() -> None:
    for setting, status in ((MembersSee.JOBS, 403), (MembersSee.LOGS, 404)):
        async with a_door(tenants=tenants(setting)) as door:
            await submitted(door, "ada", "hers")
            answer = await door.get("/api/v1/jobs/hers/logs", headers=who("bob"))
            assert answer.status_code == status, answer.text  # a lease has no log
            own = await door.get("/api/v1/jobs/hers/logs", headers=who("ada"))
            assert own.json()["error"]["code"] == "NO_LOG"


async def test_where_members_see_nothing_others_jobs_are_not_there() -> None:
    async with a_door(tenants=tenants(MembersSee.NOTHING)) as door:
        await submitted(door, "ada", "hers")
        await submitted(door, "bob", "his")
        bob = who("bob")
        listed = await door.get("/api/v1/jobs", headers=bob)
        assert [job["job_id"] for job in listed.json()["jobs"]] == ["his"]
        missing = await door.get("/api/v1/jobs/nothere", headers=bob)
        for method, path, body in [("GET", "", None), ("GET", "/why", None), *CHANGES]:
            answer = await door.request(method, f"/api/v1/jobs/hers{path}", json=body, headers=bob)
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == missing.json()["error"]["message"].replace(
                "nothere", "hers"
            )
        stats = (await door.get("/stats", headers=bob)).json()
        assert (stats["total_jobs"], stats["waiting"] + len(stats["running"])) == (1, 1)
        assert set(stats["running"]) <= {"his"}
        status = (await door.get("/api/v1/cluster/status", headers=bob)).json()
        assert status["total_jobs"] == 1
        pi = await door.get("/api/v1/jobs", headers=who("pi", "admin"))
        assert len(pi.json()["jobs"]) == 2


async def test_the_setting_is_changed_over_rest_and_grpc_and_holds_at_once() -> None:
    async with a_port() as (door, stub):
        await submitted(door, "ada", "hers")
        admin = bearer(a_token("admin"))
        url = f"/api/v1/tenants/{OURS}"
        assert (await door.get(url, headers=admin)).json()["members_see"] == "jobs"
        answer = await door.patch(url, json={"members_see": "nothing"}, headers=admin)
        assert answer.json()["members_see"] == "nothing"
        assert (await door.get("/api/v1/jobs/hers", headers=who("bob"))).status_code == 404
        request = pb.UpdateTenantQuotaRequest(tenant_id=OURS, members_see="logs")
        metadata = [("authorization", admin["Authorization"])]
        assert (await stub.UpdateTenantQuota(request, metadata=metadata)).members_see == "logs"
        assert (await door.get("/api/v1/jobs/hers", headers=who("bob"))).status_code == 200


async def test_why_and_lists_name_no_hidden_job() -> None:
    """On two GPUs: ada has both, so bob waits for her, and is not told for whom."""
    for setting, named in ((MembersSee.JOBS, ["hers"]), (MembersSee.NOTHING, [None])):
        async with a_door(tenants=tenants(setting)) as door:
            await submitted(door, "ada", "hers", gpu_count=4, gpu_type="A100")
            await submitted(door, "bob", "his", gpu_count=4, gpu_type="A100")
            await door.post("/schedule?now=1", headers=bearer(a_token("admin")))
            why = (await door.get("/api/v1/jobs/his/why", headers=who("bob"))).json()
            assert [one["job_id"] for one in why["blockers"]] == named
            assert (why["blockers"][0]["user"] is None) == (named == [None])
            gpus = (await door.get("/api/v1/gpus", headers=who("bob"))).json()["gpus"]
            assert {job for gpu in gpus for job in gpu["jobs"]} == set(filter(None, named))
            counts = (await door.get("/api/v1/cluster/metrics", headers=who("bob"))).json()
            assert counts["total_jobs"] == 1 + len(list(filter(None, named)))


async def test_last_is_the_callers_own() -> None:
    async with a_door(tenants=tenants()) as door:
        await submitted(door, "bob", "his")
        await submitted(door, "ada", "hers")
        last = await door.get("/api/v1/jobs/last", headers=who("bob"))
        assert last.json()["job_id"] == "his"
        newest = await door.get("/api/v1/jobs/last", headers=who("pi", "admin"))
        assert newest.json()["job_id"] == "hers"
        assert (await door.get("/api/v1/jobs/last", headers=who("eve"))).status_code == 404


async def test_a_selection_changes_only_what_is_the_callers() -> None:
    async with a_door(tenants=tenants()) as door:
        for name in ("ada", "bob"):
            await submitted(door, name, f"{name}s", array={"indexes": "1-2"})

        async def selected(**body: Any) -> Any:
            body = {"action": "cancel", **body}
            return await door.post("/api/v1/jobs/select", json=body, headers=who("bob"))

        refused = await selected(jobs=["adas", "bobs"])
        assert refused.status_code == 403, refused.text
        assert "is ada's" in refused.json()["error"]["message"]
        row = (await door.audited())[0]
        assert (row["outcome"], row["tenant_id"]) == ("FORBIDDEN", OURS)
        assert row["target"].startswith("adas")
        assert (await selected(all=True)).json()["changed"] == 2
        left = (await door.get("/api/v1/jobs?state=pending,running", headers=who("ada"))).json()
        assert {job["user"] for job in left["jobs"]} == {"ada"}


@pytest.mark.parametrize("action", get_args(ChangeName))
async def test_a_selection_names_nothing_that_is_hidden(action: str) -> None:
    wanted = {"action": action} | ({"priority": 9} if action == "priority" else {})
    async with a_door(tenants=tenants(MembersSee.NOTHING)) as door:
        await submitted(door, "ada", "hers", array={"indexes": "1-2"})
        messages = [
            (
                await door.post(
                    "/api/v1/jobs/select",
                    json={**wanted, "jobs": [name]},
                    headers=who("bob", "user", *whose),
                )
            ).json()["error"]["message"]
            for name in ("hers", "none")
            for whose in ((OURS,), (THEIRS,))
        ]
        assert len({text.replace("none", "hers") for text in messages}) == 1, messages


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [*CHANGES, ("GET", "", None), ("GET", "/why", None), ("GET", "/logs", None)],
)
async def test_the_paths_of_a_job_tell_nothing_of_a_hidden_array(
    method: str, path: str, body: Any
) -> None:
    async with a_door(tenants=tenants()) as door:
        await submitted(door, "ada", "hers", array={"indexes": "1-2"})
        texts = [
            (
                await door.request(
                    method,
                    f"/api/v1/jobs/{name}{path}",
                    json=body,
                    headers=who("bob", "user", THEIRS),
                )
            ).json()["error"]["message"]
            for name in ("hers", "none")
        ]
        assert texts[0].replace("hers", "none") == texts[1]


async def test_two_keys_of_one_name_are_one_user() -> None:
    """A key that is made anew must not lose its user the jobs of the old one."""
    async with a_door(tenants=tenants()) as door:
        made = [
            await door.post(
                "/api/v1/keys",
                json={"name": name, "tenants": [OURS]},
                headers=bearer(a_token("admin")),
            )
            for name in ("ada", "ada", "bob")
        ]
        old, new, other = (bearer(key.json()["key"]) for key in made)
        body = {"job_id": "hers", "tenant_id": OURS}
        assert (await door.post("/api/v1/jobs", json=body, headers=old)).status_code == 201
        assert (await door.post("/api/v1/jobs/hers/hold", headers=other)).status_code == 403
        assert (await door.post("/api/v1/jobs/hers/hold", headers=new)).status_code == 200


async def test_grpc_asks_the_same() -> None:
    async with a_port() as (door, stub):
        await submitted(door, "ada", "hers")

        def known(name: str) -> list[tuple[str, str]]:
            return [("authorization", who(name)["Authorization"])]

        with pytest.raises(grpc.aio.AioRpcError, match="job hers is ada's") as refused:
            await stub.CancelJob(pb.CancelJobRequest(job_id="hers"), metadata=known("bob"))
        assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        await door.box.service.tenants.change(TenantId(OURS), {"members_see": MembersSee.NOTHING})
        listed = await stub.ListJobs(pb.ListJobsRequest(), metadata=known("bob"))
        assert not listed.jobs
        with pytest.raises(grpc.aio.AioRpcError) as gone:
            await stub.GetJobStatus(pb.GetJobStatusRequest(job_id="hers"), metadata=known("bob"))
        assert gone.value.code() is grpc.StatusCode.NOT_FOUND
        await stub.CancelJob(pb.CancelJobRequest(job_id="hers"), metadata=known("ada"))


@pytest.mark.parametrize(
    ("sees", "total", "folded"),
    [(MembersSee.NOTHING, 4, 2), (MembersSee.JOBS, 5, 3)],
    ids=["own jobs only", "all of the tenant"],
)
async def test_a_count_is_of_what_the_caller_sees(
    sees: MembersSee, total: int, folded: int
) -> None:
    async with a_port() as (door, stub):
        await door.box.service.tenants.change(TenantId(OURS), {"members_see": sees})
        await submitted(door, "ada", "hers")
        await submitted(door, "bob", "his")
        await submitted(door, "bob", "many", array={"indexes": "1-3"})
        body, bob = {"job_id": "far", "tenant_id": THEIRS}, who("bob")
        other = await door.post("/api/v1/jobs", json=body, headers=who("cyd", "user", THEIRS))
        assert other.status_code == 201, other.text
        found = (await door.get("/api/v1/jobs?count=true&limit=1", headers=bob)).json()
        assert (len(found["jobs"]), found["total"]) == (1, total)
        found = (await door.get("/api/v1/jobs?count=true&fold=true", headers=bob)).json()
        assert (len(found["jobs"]), found["total"]) == (folded, folded)
        asked = f"/api/v1/jobs?count=true&tenant_id={THEIRS}"
        assert (await door.get(asked, headers=bob)).json()["total"] == 0
        metadata = [("authorization", bob["Authorization"])]
        counted = await stub.ListJobs(pb.ListJobsRequest(count=True, limit=1), metadata=metadata)
        assert counted.total == total
        plain = await stub.ListJobs(pb.ListJobsRequest(), metadata=metadata)
        assert not plain.HasField("total")
