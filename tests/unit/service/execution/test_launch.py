"""The environment and the rest of what the engine is given."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import a_gpu, a_job, a_node, a_placement
from tgpu.accounts.api import Account
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Array, Detail
from tgpu.core.model.lifecycle import PENDING, place
from tgpu.core.model.node import Gpu, Node, Part, Placement, Share
from tgpu.engines.api import AttemptKey, Binding, Launch
from tgpu.engines.placing import placed
from tgpu.service.execution.launch import inherited, launch_of

ASSIGNED = (
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "TGPU_JOB_ID",
    "TGPU_JOB_NAME",
    "TGPU_TENANT",
    "TGPU_ATTEMPT",
    "TGPU_RESTARTS",
    "TGPU_GPUS",
    "TGPU_GPU_COUNT",
    "TGPU_GPU_TYPE",
    "TGPU_LOG_DIR",
)


def a_launch(
    detail: Detail | None = None,
    base: dict[str, str] | None = None,
    gpus: tuple[int, ...] = (2, 3),
    array: Array | None = None,
    account: Account | None = None,
    **job: Any,
) -> Launch:
    made = replace(a_job("j1", tenant="vision", gpus=2, **job), array=array)
    progress = place(made.job_id, PENDING, a_placement(*gpus), at=5)
    launch = launch_of(
        made,
        detail or Detail(name="train", argv=("python", "t.py"), cwd="/data"),
        progress,
        base or {},
        grace_ms=1500,
        home="/home/me",
        account=account,
    )
    return placed(launch, log_dir="/logs/j1/1")


def test_the_job_is_told_who_it_is_and_what_it_has() -> None:
    env = a_launch().env
    assert env["CUDA_VISIBLE_DEVICES"] == env["TGPU_GPUS"] == "2,3"
    assert env["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (env["TGPU_JOB_ID"], env["TGPU_JOB_NAME"]) == ("j1", "train")
    assert (env["TGPU_TENANT"], env["TGPU_GPU_TYPE"]) == ("vision", "A100")
    assert (env["TGPU_ATTEMPT"], env["TGPU_RESTARTS"]) == ("1", "0")
    assert env["TGPU_GPU_COUNT"] == "2"
    assert env["TGPU_LOG_DIR"] == "/logs/j1/1"


def test_the_rest_of_the_launch_is_the_job_s_own() -> None:
    launch = a_launch(time_limit_ms=60_000)
    assert launch.key == AttemptKey("j1", 1)
    assert (launch.argv, launch.cwd) == (("python", "t.py"), "/data")
    assert (launch.time_limit_ms, launch.grace_ms) == (60_000, 1500)


def test_a_job_without_a_directory_runs_at_home() -> None:
    assert a_launch(Detail(argv=("true",))).cwd == "/home/me"


def test_the_job_s_own_variables_win_over_the_submitter_s() -> None:
    detail = Detail(argv=("true",), env=(("A", "job"), ("B", "job")))
    env = a_launch(detail, base={"A": "shell", "C": "shell"}).env
    assert (env["A"], env["B"], env["C"]) == ("job", "job", "shell")


@pytest.mark.parametrize("name", ASSIGNED)
def test_what_the_scheduler_assigns_wins_over_everybody(name: str) -> None:
    detail = Detail(name="train", argv=("true",), env=((name, "forged"),))
    forged = a_launch(detail, base={name: "stale"}).env
    assert forged[name] == a_launch().env[name]


def test_an_element_of_an_array_knows_its_place() -> None:
    env = a_launch(array=Array("7", 4)).env
    assert (env["TGPU_ARRAY_ID"], env["TGPU_ARRAY_INDEX"]) == ("7", "4")


def test_a_job_outside_arrays_has_no_place_in_one() -> None:
    assert "TGPU_ARRAY_ID" not in a_launch().env
    assert "TGPU_ARRAY_INDEX" not in a_launch().env


def test_a_sweep_s_parameters_are_variables_too_and_win() -> None:
    detail = Detail(argv=("t",), params=(("lr", "0.1"),), env=(("TGPU_PARAM_lr", "9"),))
    assert a_launch(detail).env["TGPU_PARAM_lr"] == "0.1"


def test_nothing_is_inherited_from_a_surrounding_job_and_the_rest_is() -> None:
    outer = a_launch(
        Detail(argv=("t",), params=(("lr", "0.1"),)), {"PATH": "/bin"}, array=Array("7", 4)
    ).env
    inner = a_launch(base=inherited({**outer, "TGPU_URL": "http://127.0.0.1:1"})).env
    left = {name for name in inner if name.startswith(("TGPU_ARRAY", "TGPU_PARAM"))}
    assert left == set()
    assert inner["TGPU_JOB_ID"] == "j1"
    assert inner["PATH"] == "/bin"
    assert inner["TGPU_URL"] == "http://127.0.0.1:1"  # how to reach the service is no job's own


# -- gangs, fractions, slices --------------------------------------------------------------------


def placed_launch(
    *parts: tuple[str, dict[int, int]],
    base: dict[str, str] | None = None,
    env: tuple[tuple[str, str], ...] = (),
    nodes: Sequence[Node] = (),
    argv: tuple[str, ...] = ("python", "t.py"),
    **job: Any,
) -> Launch:
    """A job whose workers are on these nodes, with so many thousandths of each GPU."""
    shares = [tuple(Share(index, m) for index, m in gpus.items()) for _, gpus in parts]
    others = tuple(
        Part(NodeId(node), mine) for (node, _), mine in zip(parts[1:], shares[1:], strict=True)
    )
    placement = Placement(NodeId(parts[0][0]), "A100", shares[0], others)
    millis = sum(share.millis for mine in shares for share in mine)
    made = a_job("j1", gpus=millis / 1000, workers=len(parts), **job)
    launch = launch_of(
        made,
        Detail(argv=argv, env=env),
        place(made.job_id, PENDING, placement, at=5),
        base or {},
        grace_ms=1,
        home="/",
        nodes=nodes,
    )
    return placed(launch, log_dir="/logs")


GANG = (("n0", {0: 1000, 1: 1000}), ("n0", {2: 1000, 3: 1000}), ("n1", {0: 1000, 1: 1000}))


def test_each_worker_of_a_gang_knows_its_place() -> None:
    workers = placed_launch(*GANG).workers
    names = ("RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "CUDA_VISIBLE_DEVICES")
    assert [tuple(worker[name] for name in names) for worker in workers] == [
        ("0", "0", "2", "0", "0,1"),
        ("1", "1", "2", "0", "2,3"),
        ("2", "0", "1", "1", "0,1"),
    ]
    assert all(worker["TGPU_RANK"] == worker["RANK"] for worker in workers)
    assert all(worker["GROUP_RANK"] == worker["NODE_RANK"] for worker in workers)
    assert all(worker["TGPU_GPUS"] == worker["CUDA_VISIBLE_DEVICES"] for worker in workers)


def test_all_workers_of_a_gang_know_the_others() -> None:
    env = placed_launch(*GANG).env
    assert (env["WORLD_SIZE"], env["TGPU_WORLD_SIZE"]) == ("3", "3")
    assert (env["TGPU_NODE_LIST"], env["MASTER_ADDR"]) == ("n0,n1", "n0")
    assert env["TGPU_GPU_COUNT"] == "6"
    assert "MASTER_PORT" not in env  # found by whoever starts the workers


def test_a_gang_takes_its_master_s_port_from_its_owner_but_not_from_the_shell() -> None:
    base = {"MASTER_PORT": "1", "RANK": "9"}
    assert placed_launch(*GANG, base=base).env.keys().isdisjoint({"MASTER_PORT", "RANK"})
    assert placed_launch(*GANG, env=(("MASTER_PORT", "29500"),)).env["MASTER_PORT"] == "29500"


def test_a_job_of_one_worker_is_no_gang() -> None:
    launch = placed_launch(("n0", {0: 1000}), base={"RANK": "7"})
    assert launch.workers == ()
    assert launch.env["RANK"] == "7"  # somebody's own, left alone
    assert launch.env.keys().isdisjoint({"WORLD_SIZE", "TGPU_RANK", "MASTER_ADDR"})


def test_nothing_of_a_gang_or_a_share_is_inherited_by_a_job_submitted_from_inside() -> None:
    gang = placed_launch(*GANG)
    inside = {**gang.env, **gang.workers[1], "MASTER_PORT": "1"}
    share = placed_launch(("n0", {0: 250}), gpu_mem_mib=100).env
    for surrounding in (inside, share):
        inner = placed_launch(("n0", {0: 1000}), base=inherited(surrounding)).env
        assert set(inner) == set(placed_launch(("n0", {0: 1000})).env)


def test_a_job_with_a_part_of_a_gpu_is_held_to_it() -> None:
    env = placed_launch(("n0", {3: 250}), nodes=[a_node("n0")]).env
    assert (env["TGPU_GPU_FRACTION"], env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"]) == ("0.25", "25")
    assert env["TGPU_GPU_MEM_LIMIT_MB"] == "20480"  # of the builder's 80 GiB
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20480M"


def test_who_counts_by_its_memory_computes_with_what_it_asked_for() -> None:
    env = placed_launch(("n0", {3: 500}), gpu_mem_mib=40_000, compute_millis=250).env
    assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"
    assert env["TGPU_GPU_MEM_LIMIT_MB"] == "40000"


def test_the_smallest_share_is_still_one_percent() -> None:
    env = placed_launch(("n0", {0: 10})).env
    assert env["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "1"


def test_the_memory_that_was_asked_for_is_the_limit() -> None:
    env = placed_launch(("n0", {3: 500}), gpu_mem_mib=20_000, nodes=[a_node("n0")]).env
    assert env["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] == "0=20000M"
    assert env["TGPU_GPU_MEM_LIMIT_MB"] == "20000"


def test_each_worker_of_a_gang_of_shares_is_held_to_its_own() -> None:
    launch = placed_launch(("n0", {0: 500}), ("n0", {1: 500}), gpu_mem_mib=20_000)
    limits = [worker["CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"] for worker in launch.workers]
    assert limits == ["0=10000M", "0=10000M"]


def test_without_the_node_there_is_no_limit_on_memory() -> None:
    env = placed_launch(("n0", {0: 500})).env
    assert env.keys().isdisjoint({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "TGPU_GPU_MEM_LIMIT_MB"})


def test_a_job_with_whole_gpus_is_held_to_nothing() -> None:
    env = placed_launch(("n0", {0: 1000}), gpu_mem_mib=100, nodes=[a_node("n0")]).env
    assert not {name for name in env if name.startswith("CUDA_MPS")}
    assert "TGPU_GPU_FRACTION" not in env


def test_a_slice_of_a_gpu_is_named_by_its_uuid() -> None:
    slices = [a_gpu(0), Gpu(1, "MIG-1", "A100", 10, slice_of=0)]
    env = placed_launch(("n0", {1: 1000}), nodes=[a_node("n0", slices)]).env
    assert (env["CUDA_VISIBLE_DEVICES"], env["TGPU_GPUS"]) == ("MIG-1", "1")


def test_the_gpus_stand_in_the_command_where_it_names_them() -> None:
    detail = Detail(argv=("x", "--cuda", "{TGPU_GPUS}", "--json", "{}"))
    assert a_launch(detail).argv == ("x", "--cuda", "2,3", "--json", "{}")


def test_the_command_of_a_gang_stays_as_it_is() -> None:
    launch = placed_launch(*GANG, argv=("x", "{TGPU_GPUS}"))
    assert launch.argv == ("x", "{TGPU_GPUS}")


def test_a_user_that_a_job_was_lent_is_not_given_the_submitters_home() -> None:
    account = Account(1000, 1000, (1000,), "tgpu-red", "/var/lib/tgpu-red", "/usr/sbin/nologin")
    base = {"HOME": "/root", "USER": "root", "SHELL": "/bin/zsh", "SSH_AUTH_SOCK": "/s", "X": "1"}
    lent = Detail(argv=("id",), env_id="e", uid=1000, account="tgpu-red", owner="uid:root")
    login = {"HOME": "/var/lib/tgpu-red", "USER": "tgpu-red", "SHELL": "/bin/sh", "X": "1"}
    found = a_launch(lent, base, account=account).env
    assert found.items() >= login.items()
    assert "SSH_AUTH_SOCK" not in found
    own = Detail(argv=("id",), env_id="e", uid=1000, account="tgpu-red", owner="uid:tgpu-red")
    assert a_launch(own, base, account=account).env.items() >= base.items()


@pytest.mark.parametrize(
    ("asked", "default", "limit"),
    [(None, None, None), (None, 1024, 1024 << 20), (100, 1024, 100 << 20), (0, None, 0)],
    ids=["none", "the service's", "its own", "none, asked for"],
)
def test_the_log_limit_is_the_jobs_own_or_the_services(
    asked: int | None, default: int | None, limit: int | None
) -> None:
    job = a_job("j")
    launch = launch_of(
        job,
        Detail(argv=("t",), log_limit_mib=asked),
        place(job.job_id, PENDING, a_placement(0), at=5),
        {},
        grace_ms=1,
        home="/",
        log_limit_mib=default,
    )
    assert launch.log_limit_bytes == limit


def test_an_engine_that_binds_is_given_the_request_and_no_place() -> None:
    job = a_job("j", tenant="vision", gpus=2)
    launch = launch_of(
        job,
        Detail(argv=("t",), image="train:1", account="ann", tmux=True),
        place(job.job_id, PENDING, a_placement(0, 1), at=5),
        {},
        grace_ms=1,
        home="/",
        nodes=[a_node()],
        binding=Binding.ENGINE,
    )
    assert (launch.request, launch.image, launch.tenant) == (job.request, "train:1", "vision")
    assert (launch.account, launch.placement, launch.nodes) == ("ann", None, ())
    assert launch.session == ""
    assert launch.env.keys().isdisjoint({"CUDA_VISIBLE_DEVICES", "TGPU_GPUS", "TGPU_GPU_TYPE"})


def test_an_engine_that_picks_gpus_is_given_the_nodes_alone() -> None:
    job = a_job("j", gpus=1, workers=2)
    others = (Part(NodeId("n1"), (Share(3, 1000),)),)
    chosen = Placement(NodeId("n0"), "A100", (Share(0, 1000),), others)
    launch = launch_of(
        job,
        Detail(argv=("t",)),
        place(job.job_id, PENDING, chosen, at=5),
        {},
        grace_ms=1,
        home="/",
        nodes=[a_node("n0"), a_node("n1")],
        binding=Binding.NODE,
    )
    assert launch.placement == Placement(NodeId("n0"), "A100", (), (Part(NodeId("n1"), ()),))
    told = placed(launch)
    assert told.env["MASTER_ADDR"] == "n0"
    assert told.env.keys().isdisjoint({"CUDA_VISIBLE_DEVICES", "TGPU_GPUS"})
