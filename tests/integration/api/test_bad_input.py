"""Whatever is sent: a clear error, never a 500, and nothing has changed.

On the SQLite store, because it is the one that text and numbers of the wrong kind would break.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.api.http import Api, a_plain_job, an_api, error_of
from tests.unit.service.world import DEFAULT
from tgpu.store.sqlite import SqliteStore

JOBS = "/api/v1/jobs"
JSON = {"content-type": "application/json"}

# As they stand in the text of a request: JSON has no way to write most of them otherwise.
NUMBERS = ["0", "-1", "0.001", "1e9", "NaN", "Infinity", "-Infinity", "1e400", "1" + "0" * 30]
OTHERS = ["true", '"2"', '"two"', "null", "[]", "{}", '""', '"\\ud800"', '"\\u0000"']
LONG = '"' + "x" * 200_000 + '"'
ODD = [*NUMBERS, *OTHERS, LONG]


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    store = SqliteStore(tmp_path / "tgpu.db")
    async with an_api(store=store, leases=True, tenants=(DEFAULT,)) as made:
        yield made


async def total(api: Api) -> int:
    found: int = (await api.get("/stats")).json()["total_jobs"]
    return found


async def refused(api: Api, field: str, value: str, path: str = JOBS) -> dict[str, Any]:
    """The error for a request with this one field, which must leave no trace."""
    before = await total(api)
    answer = await api.post(path, content=f'{{"{field}": {value}}}', headers=JSON)
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert await total(api) == before
    assert len(error["message"]) < 500, "a message is for reading"
    return error


# -- GPUs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gpu_count", "gpus"])
@pytest.mark.parametrize(
    ("value", "remedy"),
    [
        ("0", "GPUs must be at least 0.01 (got 0)"),
        ("-1", "GPUs must be at least 0.01 (got -1)"),
        ("0.001", "GPUs must be at least 0.01 (got 0.001)"),
        ("0.125", "GPUs come in steps of 0.01, so 0.125 is not possible (got 0.125)"),
        ("1e9", "GPUs must be at most 100000 (got 1000000000.0)"),
        ("1" + "0" * 30, f"GPUs must be at most 100000 (got 1{'0' * 30})"),
        ("7", "at most 4 GPUs of one type (4 A100, 2 H100) are on one machine (got '7')"),
        ("NaN", "GPUs must be a number like 1, 2 or 0.5 (got nan)"),
        ("Infinity", "GPUs must be a number like 1, 2 or 0.5 (got inf)"),
        ("1e400", "GPUs must be a number like 1, 2 or 0.5 (got inf)"),
        ('"two"', "GPUs must be a number like 1, 2 or 0.5 (got 'two')"),
        ('"\\ud800"', "GPUs must be a number like 1, 2 or 0.5 (got '\\ud800')"),
        ("true", "must be a number (got True)"),
        ("null", "must be a number (got None)"),
        ("[]", "must be a number (got [])"),
    ],
)
async def test_gpus_that_cannot_be(api: Api, name: str, value: str, remedy: str) -> None:
    message = (await refused(api, name, value))["message"]
    assert message.partition(": ")[2] == remedy
    assert message.partition(": ")[0] in (name, "gpu_count")


async def test_a_number_as_text_is_exact_and_welcome_where_it_says_so(api: Api) -> None:
    answer = await api.post(JOBS, json={"gpu_count": "0.3"})
    assert answer.status_code == 201


async def test_gpus_that_cannot_be_at_the_root(api: Api) -> None:
    for value in [*ODD, "1.5"]:
        body = json.dumps(a_plain_job("j", gpus="@", tenant_id="default")).replace('"@"', value)
        answer = await api.post("/jobs", content=body)
        error = error_of(answer, 422, "VALIDATION_ERROR")
        assert error["message"].startswith(("gpus: must be", "body: must be a JSON object: "))
    assert await total(api) == 0


# -- every field -----------------------------------------------------------------------------

WHOLE_NUMBERS = ["priority", "gpu_memory_mb", "gpu_memory_each_mb", "memory_mb", "max_retries"]
REALS = ["cpu_cores", "max_runtime", "max_runtime_minutes", "backoff_seconds"]
TEXTS = ["job_id", "tenant_id", "name", "user", "queue", "gpu_type", "image", "working_dir"]
TEXTS += ["deadline", "reservation"]
TRUTHS = ["hold", "requeue", "gang_scheduling", "exclusive", "same_island", "spread"]
TRUTHS += ["preemptible"]


@pytest.mark.parametrize("field", WHOLE_NUMBERS)
async def test_whole_numbers(api: Api, field: str) -> None:
    for value in [*NUMBERS[2:], *OTHERS, LONG, "1.5", "-1" + "0" * 30]:
        if (field, value) == ("priority", "null"):
            continue  # what the tenant's tier says
        error = await refused(api, field, value)
        assert error["message"].startswith(f"{field}: must be ")


@pytest.mark.parametrize("field", REALS)
async def test_real_numbers(api: Api, field: str) -> None:
    for value in ["-1", "NaN", "Infinity", "1e400", "1" + "0" * 30, *OTHERS, LONG]:
        if value == "null" and field.startswith("max_runtime"):
            continue  # no limit
        error = await refused(api, field, value)
        assert error["message"].startswith(f"{field}: must be ")


@pytest.mark.parametrize("field", TEXTS)
async def test_texts(api: Api, field: str) -> None:
    odd = ['"\\ud800"', '"\\u0000"', '"a\\udfff"', LONG]
    for value in [*NUMBERS, "true", "[]", "{}", *odd]:
        error = await refused(api, field, value)
        assert error["message"].startswith(f"{field}: ")


@pytest.mark.parametrize("field", TRUTHS)
async def test_truths(api: Api, field: str) -> None:
    for value in [*NUMBERS, *OTHERS[1:], LONG]:
        error = await refused(api, field, value)
        assert error["message"].startswith(f"{field}: must be true or false (got ")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("command", '[""]', "command: has no program; leave it out for a lease (got [''])"),
        (
            "command",
            '["  "]',
            "command: has no program; leave it out for a lease (got ['  '])",
        ),
        ("command", "null", 'command: must be a list, like ["python", "train.py"] (got None)'),
        ("command", '["a\\u0000b"]', "command.0: must not contain NUL characters"),
        ("command", '["a", "\\ud800"]', "command.1: must be Unicode text"),
        ("command", "[1]", "command.0: must be text (got 1)"),
        ("command", f"[{LONG}]", "command.0: must have at most 131071 bytes"),
        ("args", '["--x"]', "args: arguments need a command (got ['--x'])"),
        ("args", '"--x"', 'args: must be a list, like ["--epochs", "100"]'),
        ("environment", "[]", 'environment: must be an object with names and values, like {"SEED"'),
        ("environment", '{"A": "\\ud800"}', "environment.A: must be Unicode text"),
        ("environment", '{"A": 1}', "environment.A: must be text (got 1)"),
        ("environment", '{"A": "\\u0000"}', "environment.A: must not contain NUL"),
        ("environment", '{"A B": "x"}', "environment: variable names have letters, digits and _"),
        ("environment", '{"": "x"}', "environment: variable names have letters, digits and _"),
        ("environment", f'{{"A": {LONG}}}', "environment.A: must have at most 131071 bytes"),
        ("base_environment", '{"A": "\\ud800"}', "base_environment.A: must be Unicode text"),
        ("base_environment", '{"A=B": "x"}', "base_environment: not a variable's name"),
        ("params", '{"lr": []}', "params.lr: needs at least one value (got [])"),
        ("params", '{"lr": "0.1"}', "params.lr: must be a list"),
        ("params", '{"lr": [0.1]}', "params.lr.0: must be text (got 0.1)"),
        ("params", '{"": ["x"]}', "params: a parameter is letters, digits"),
        ("params", '{"a b": ["x"]}', "params: a parameter is letters, digits"),
        ("params", '{"lr": ["\\u0000"]}', "params.lr.0: must not contain NUL"),
        ("params", '{"lr": ["\\ud800"]}', "params.lr.0: must be Unicode text"),
        ("array", '"1-3"', 'array: must be an object with named fields, like {"indexes": "1-100"}'),
        ("array", "{}", "array.indexes: is required"),
        ("array", '{"indexes": "1-10000000"}', "array: at most 10000 elements"),
        ("array", '{"indexes": "5-1"}', "array: 5 is above 1; write 1-5 (got '5-1')"),
        ("array", '{"indexes": "a"}', "array: write indexes like 1-100 or 1,3,5-9 (got 'a')"),
        ("array", '{"indexes": ""}', "array: write indexes like 1-100 or 1,3,5-9 (got '')"),
        ("array", '{"indexes": "1-3", "max_running": 0}', "array.max_running: must be at least 1"),
        ("after", '["7"]', 'after.0: must be an object with named fields, like {"job_id": "7"}'),
        ("after", '[{"job_id": "nobody"}]', "after: there is no such job (got 'nobody')"),
        ("after", '[{"job_id": "\\ud800"}]', "after.0.job_id: must be Unicode text"),
        ("after", '[{"job_id": "a", "kind": "x"}]', "after.0.kind: must be 'ok' or 'any'"),
        ("allowed_gpus", "[-1]", "allowed_gpus.0: must be at least 0 (got -1)"),
        ("allowed_gpus", "[99]", "allowed_gpus: there is no GPU 99; there are 6: 0 to 5"),
        ("allowed_gpus", "[true]", "allowed_gpus.0: must be a whole number (got True)"),
        ("allowed_gpus", f"[1{'0' * 30}]", "allowed_gpus.0: must be at most 1000000"),
        ("gpu_type", '"B200"', "gpu_type: there is no such GPU here; there are: A100, H100"),
        ("gpu_memory_mb", "99999", "gpu_memory_mb: that is 99999 MiB a GPU; no GPU here has it"),
        ("cpu_cores", "257", "cpu_cores: the largest machine has 256 cores (got '257')"),
        ("memory_mb", "2000001", "memory_mb: the largest machine has 2000000 MiB"),
        ("max_runtime", "0", "max_runtime: must be above 0 (got 0)"),
        ("max_runtime", "9e12", "max_runtime: must be at most a hundred years"),
        ("max_runtime_minutes", "9e12", "max_runtime_minutes: must be at most a hundred years"),
        ("working_dir", '"data"', "working_dir: must be an absolute path (got 'data')"),
        ("tenant_id", '"nobody"', "tenant_id: no such tenant; there are: default (got 'nobody')"),
        ("queue", '""', "queue: must not be empty (got '')"),
        ("workers", "0", "workers: must be at least 1 (got 0)"),
        ("workers", "1.5", "workers: must be a whole number (got 1.5)"),
        ("workers", "true", "workers: must be a whole number (got True)"),
        ("workers", "99999", "workers: must be at most 10000 (got 99999)"),
        ("gpu_types", '"A100"', 'gpu_types: must be a list, like ["H100", "A100"]'),
        ("gpu_types", '[""]', "gpu_types.0: must not be empty"),
        ("gpu_types", '["A100", "A100"]', "gpu_types: is given twice; name each one once"),
        ("excluded_gpus", "[-1]", "excluded_gpus.0: must be at least 0 (got -1)"),
        ("nodes", '"a"', 'nodes: must be a list, like ["node-1"] (got'),
        ("excluded_nodes", "[1]", "excluded_nodes.0: must be text (got 1)"),
        ("labels", "[]", 'labels: must be an object with names and values, like {"rack": "r1"}'),
        ("labels", '{"rack": 1}', "labels.rack: must be text (got 1)"),
        ("labels", '{"a b": "x"}', "labels: a label is letters, digits"),
        ("nodes", '["nowhere"]', "nodes: no machine meets that; see `tgpu nodes` (got 'nowhere')"),
        ("labels", '{"rack": "r9"}', "labels: no machine meets that; see `tgpu nodes` (got 'rack"),
        ("gpu_memory_each_mb", "999999", "gpu_memory_each_mb: no machine meets that"),
        ("excluded_gpus", "[0, 1, 2, 3, 4, 5]", "excluded_gpus: no machine meets that"),
        ("gpu_types", '["B200", "V100"]', "gpu_type: there is no such GPU here; there are: A100"),
        (
            "workers",
            "9",
            "workers: all machines together hold 4 of one type (4 A100, 2 H100) (got 9)",
        ),
        ("deadline", '"soon"', "deadline: must be ISO 8601 with its zone, like 2030-01-31T09:00"),
        ("deadline", '"2030-01-31T09:00:00"', "deadline: must be ISO 8601 with its zone"),
        (
            "deadline",
            '"1969-01-31T09:00:00Z"',
            "deadline: is in the past; give a later one, or none",
        ),
        ("checkpoint_signal", "true", "checkpoint_signal: must be a signal: USR1 or 10 (got True)"),
        ("checkpoint_signal", "1.5", "checkpoint_signal: must be a signal: USR1 or 10 (got 1.5)"),
        ("checkpoint_signal", '"KILL"', "checkpoint_signal: ends or stops the program"),
        ("checkpoint_signal", '"X"', "checkpoint_signal: must be a signal: USR1 or 10 (got 'X')"),
        ("reservation", '"r1"', "reservation: tenant default has no such reservation; there are:"),
        ("unknown_field", "1", "unknown_field: is not a field of this request; GET /docs shows"),
    ],
)
async def test_the_error_names_the_field_the_value_and_what_would_be_right(
    api: Api, field: str, value: str, message: str
) -> None:
    error = await refused(api, field, value)
    assert error["message"].startswith(message)
    assert error["details"][0]["field"]


@pytest.mark.parametrize(
    "job_id", ["../x", ".hidden", "-x", "a/b", "", "a" * 200, "a..b", "é", "a b", "last", "a\n"]
)
@pytest.mark.parametrize("path", [JOBS, "/jobs"])
async def test_job_ids_that_cannot_be(api: Api, job_id: str, path: str) -> None:
    body = {"job_id": job_id} if path == JOBS else a_plain_job(job_id, tenant_id="default")
    error = error_of(await api.post(path, json=body), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("job_id: ")
    assert await total(api) == 0


@pytest.mark.parametrize("field", list(a_plain_job("j")))
async def test_every_field_at_the_root(api: Api, field: str) -> None:
    for number, value in enumerate([*ODD, "1.5"]):
        job = {**a_plain_job(f"j{number}", tenant_id="default"), field: "@"}
        before = await total(api)
        answer = await api.post("/jobs", content=json.dumps(job).replace('"@"', value))
        if answer.status_code == 201:
            continue
        error = error_of(answer, 422, "VALIDATION_ERROR")
        assert error["message"].startswith((f"{field}: ", "body: "))
        assert "`" not in error["message"], "a library's dialect"
        assert await total(api) == before


async def test_two_limits_of_time_are_one_too_many(api: Api) -> None:
    answer = await api.post(JOBS, json={"max_runtime": 60, "max_runtime_minutes": 1})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert "not both" in error["message"]


async def test_a_job_cannot_wait_for_itself(api: Api) -> None:
    answer = await api.post(JOBS, json={"job_id": "a", "after": [{"job_id": "a"}]})
    assert "a job cannot depend on itself" in error_of(answer, 422, "VALIDATION_ERROR")["message"]


async def test_several_mistakes_are_named_together(api: Api) -> None:
    answer = await api.post(JOBS, json={"priority": "x", "hold": 1, "nmae": "typo"})
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert [detail["field"] for detail in error["details"]] == ["priority", "hold", "nmae"]


# -- bodies ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "body: is required"),
        (b"{", "body: must be JSON: "),
        (b"[]", "body: must be an object with named fields (got [])"),
        (b"null", "body: "),
        (b"\xff\xfe{}", "body: must be JSON"),
        (b'{"name": "\xff"}', "body: must be JSON: it is not UTF-8"),
        (b"[" * 200_000, "body: must be JSON: it is nested too deeply"),
        (b'{"a":' * 20_000, "body: must be JSON: it is nested too deeply"),
        (b'{"a":' * 200_000, "body: must be JSON: it has more than 20000 objects"),
        (b'{"a":[' + b"[]," * 300_000, "body: must be JSON: it has more than 250000 values"),
        (b'{"priority":' + b"1" * 5_000 + b"}", "body: must be JSON: a number in it has too many"),
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "null",
        "utf-16",
        "latin-1",
        "deep lists",
        "deep objects",
        "many objects",
        "many lists",
        "many digits",
    ],
)
async def test_bodies_that_are_no_job(api: Api, body: bytes, message: str) -> None:
    answer = await api.post(JOBS, content=body, headers=JSON)
    error = error_of(answer, 422, "VALIDATION_ERROR")
    assert error["message"].startswith(message)
    assert await total(api) == 0


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"\xff", b"[" * 200_000, b'{"a":' * 200_000, b'{"gpus":"x",}'],
    ids=["empty", "cut", "list", "null", "latin-1", "deep lists", "deep objects", "broken behind"],
)
async def test_bodies_that_are_no_job_at_the_root(api: Api, body: bytes) -> None:
    error = error_of(await api.post("/jobs", content=body), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("body: must be a JSON object")
    assert await total(api) == 0


async def test_another_content_type_is_told_which_one_it_takes(api: Api) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        answer = await api.post(JOBS, content=b'{"command": ["x"]}', headers={"content-type": kind})
        error = error_of(answer, 422, "VALIDATION_ERROR")
        assert "Content-Type: application/json" in error["message"]


async def test_of_a_key_given_twice_the_last_counts(api: Api) -> None:
    answer = await api.post(JOBS, content=b'{"name": "a", "name": "b"}', headers=JSON)
    assert answer.status_code == 201
    assert (await api.get(f"{JOBS}/last")).json()["name"] == "b"


# -- queries ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("limit=0", "limit: must be at least 1 (got '0')"),
        ("limit=1001", "limit: must be at most 1000 (got '1001')"),
        ("limit=x", "limit: must be a whole number (got 'x')"),
        ("limit=1e3", "limit: must be a whole number (got '1e3')"),
        ("cursor=-1", "cursor: must be at least 1 (got '-1')"),
        ("cursor=99999999999999999999", "cursor: must be at most "),
        ("state=bogus", "state: there are: pending, scheduled, running"),
    ],
)
async def test_parameters_out_of_range(api: Api, query: str, message: str) -> None:
    error = error_of(await api.get(f"{JOBS}?{query}"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith(message)


@pytest.mark.parametrize("name", ["name", "user", "tenant_id", "array_id"])
async def test_odd_filters_find_nothing(api: Api, name: str) -> None:
    await api.post(JOBS, json={"name": "plain"})
    for value in ["%ED%A0%80", "%00", "%FF", "x" * 500, "%27%3B--"]:
        answer = await api.get(f"{JOBS}?{name}={value}")
        assert (answer.status_code, answer.json()["jobs"]) == (200, [])
    error = error_of(await api.get(f"{JOBS}?{name}={'x' * 5_000}"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith(f"{name}: must have at most ")


@pytest.mark.parametrize("path", ["/jobs/{}", "/api/v1/jobs/{}", "/api/v1/jobs/{}/why"])
async def test_odd_names_are_not_found(api: Api, path: str) -> None:
    for name in ["%ED%A0%80", "%00", "a%20b", "x" * 500, "%F0%9F%92%A9"]:
        error_of(await api.get(path.format(name)), 404, "JOB_NOT_FOUND")
    too_long = error_of(await api.get(path.format("x" * 5000)), 422, "VALIDATION_ERROR")
    assert "must have at most 512 characters" in too_long["message"]


@pytest.mark.parametrize("now", ["1" + "0" * 30, "-1" + "0" * 30, str(2**63), "NaN"])
async def test_instants_that_no_clock_has(api: Api, now: str) -> None:
    await api.post(JOBS, json={"job_id": "j"})
    error = error_of(await api.post(f"/schedule?now={now}"), 422, "VALIDATION_ERROR")
    assert error["message"].startswith("now: must be ")
    assert (await api.get("/jobs/j")).json()["status"] == "WAITING"


async def test_the_farthest_instants_and_numbers_work(api: Api) -> None:
    farthest = (2**53 - 1) // 1000
    for sign in (1, -1):
        body = a_plain_job(
            f"j{sign}",
            tenant_id="default",
            submitted_at=sign * farthest,
            priority=sign * (2**53 - 1),
        )
        assert (await api.post("/jobs", json=body)).status_code == 201
    answer = await api.post("/schedule", params={"now": farthest})
    assert answer.status_code == 200
    assert (await api.get(JOBS)).status_code == 200
    assert (await api.get(f"{JOBS}/j1/why")).status_code == 200
    longest = {**a_plain_job("long", tenant_id="default"), "max_runtime": farthest}
    assert (await api.post("/jobs", json=longest)).status_code == 201
    assert (await api.post("/schedule", params={"now": farthest})).status_code == 200
    assert (await api.post("/schedule", params={"now": -farthest})).status_code == 200


# -- anything --------------------------------------------------------------------------------

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=True)
    | st.text(st.characters(), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(), max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    *WHOLE_NUMBERS, *REALS, *TEXTS, *TRUTHS, "gpu_count", "gpus", "project_id", "command", "args",
    "environment", "base_environment", "params", "array", "after", "allowed_gpus",
]  # fmt: skip


# Opening a store takes longer than a hundred requests: each example sends many.


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bodies=st.lists(
        st.dictionaries(st.sampled_from(FIELDS), anything, min_size=1, max_size=4), min_size=20
    )
)
async def test_no_job_object_is_answered_with_a_bug(
    tmp_path: Path, bodies: list[dict[str, Any]]
) -> None:
    async with an_api(store=SqliteStore(tmp_path / "any.db"), leases=True) as api:
        for body in bodies:
            answer = await api.post(JOBS, content=json.dumps(body), headers=JSON)
            assert answer.status_code in (200, 201, 409, 422), answer.text
        assert (await api.get(JOBS)).status_code == 200


lines = st.one_of(
    anything.map(json.dumps),
    st.text(st.characters(codec="utf-8"), max_size=30),
    st.fixed_dictionaries(
        {name: anything | st.just(value) for name, value in a_plain_job("j").items()}
    ).map(json.dumps),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(lines, max_size=20), fmt=st.sampled_from(["ndjson", "csv"]))
async def test_no_file_is_answered_with_a_bug(tmp_path: Path, rows: list[str], fmt: str) -> None:
    header = "job_id,tenant_id,gpu_type,gpus,priority,submitted_at\n" if fmt == "csv" else ""
    async with an_api(store=SqliteStore(tmp_path / "any.db"), leases=True) as api:
        answer = await api.post(f"/ingest?fmt={fmt}", content=header + "\n".join(rows))
        assert answer.status_code == 200, answer.text
        assert (await api.get("/stats")).status_code == 200
