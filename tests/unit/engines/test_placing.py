"""What an attempt is told of a place that its engine has chosen."""

from tests.builders import a_node
from tgpu.core.model.ids import NodeId
from tgpu.core.model.job import Request
from tgpu.core.model.node import Part, Share
from tgpu.engines.api import AttemptKey, Launch
from tgpu.engines.placing import LOOPBACK, placed

SHELL = {"PATH": "/bin", "CUDA_VISIBLE_DEVICES": "7", "TGPU_GPUS": "7"}


def a_launch(gpus: int = 2, workers: int = 1) -> Launch:
    request = Request(gpus * 1000, gpu_type="H100", workers=workers)
    return Launch(AttemptKey("j", 1), ("t", "{TGPU_GPUS}"), "/", SHELL, request=request)


def on(node: str, *gpus: int) -> Part:
    return Part(NodeId(node), tuple(Share(gpu, 1000) for gpu in gpus))


def test_a_launch_without_a_place_stays_as_it_is() -> None:
    launch = a_launch()
    assert placed(launch) is launch


def test_the_place_that_the_engine_chose_is_told_as_one_of_ours() -> None:
    launch = placed(a_launch(), [on("a", 4, 5)])
    assert launch.env["CUDA_VISIBLE_DEVICES"] == launch.env["TGPU_GPUS"] == "4,5"
    assert (launch.env["TGPU_GPU_TYPE"], launch.argv) == ("H100", ("t", "4,5"))


def test_the_type_is_that_of_the_gpus_where_they_are_known() -> None:
    launch = Launch(AttemptKey("j", 1), ("t",), "/", {}, request=Request(1000), nodes=(a_node(),))
    part = on(launch.nodes[0].node_id, 0)
    assert placed(launch, [part]).env["TGPU_GPU_TYPE"] == launch.nodes[0].gpus[0].gpu_type


def test_gpus_that_the_engine_cannot_name_are_not_named_and_not_the_submitters() -> None:
    launch = placed(a_launch(), [on("a")])
    assert launch.env == {"PATH": "/bin", "TGPU_GPU_TYPE": "H100"}
    assert launch.argv == ("t", "{TGPU_GPUS}")


def test_a_job_without_gpus_sees_none() -> None:
    assert placed(a_launch(gpus=0), [on("a")]).env["CUDA_VISIBLE_DEVICES"] == ""


def test_the_first_workers_node_is_where_the_others_meet() -> None:
    over_two = placed(a_launch(workers=2), [on("b", 0), on("a", 0)])
    assert (over_two.env["MASTER_ADDR"], over_two.env["TGPU_NODE_LIST"]) == ("b", "b,a")
    assert [worker["NODE_RANK"] for worker in over_two.workers] == ["0", "1"]


def test_workers_on_one_node_meet_on_loopback() -> None:
    launch = placed(a_launch(workers=2), [on("a", 0), on("a", 1)])
    assert launch.env["MASTER_ADDR"] == LOOPBACK


def test_an_engine_may_know_a_better_name_for_the_first_node() -> None:
    launch = placed(a_launch(workers=2), [on("a", 0), on("b", 1)], master="10.0.0.1")
    assert launch.env["MASTER_ADDR"] == "10.0.0.1"


def test_workers_whose_gpus_nobody_can_name_still_know_their_rank() -> None:
    launch = placed(a_launch(workers=2), [on("a"), on("b")])
    assert [worker["RANK"] for worker in launch.workers] == ["0", "1"]
    assert not any("CUDA_VISIBLE_DEVICES" in env for env in (launch.env, *launch.workers))
