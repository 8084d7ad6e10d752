from tests.builders import a_job
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import class_of
from tgpu.core.state.waiting_queue import WaitingQueue


def test_jobs_alike_share_one_class() -> None:
    waiting = WaitingQueue()
    first = waiting.join(class_of(a_job("a", submitted_at=1)))
    assert waiting.join(class_of(a_job("b", submitted_at=2))) is first
    assert first.members == 2


def test_what_a_rule_can_tell_apart_is_another_class() -> None:
    jobs = [
        a_job(),
        a_job(tenant="other"),
        a_job(priority=501),
        a_job(gpus=2),
        a_job(gpu_type="A100"),
        a_job(gpu_mem_mib=1),
        a_job(cpus=1),
        a_job(mem_mib=1),
        a_job(allowed_gpus=(0,)),
        a_job(workers=2, gpus=2),
        a_job(user="ada"),
        a_job(time_limit_ms=5),
        a_job(deadline_at=5),
        a_job(booking="b1"),
        a_job(array="x", array_max=1),
        a_job(array="x", array_max=2),
        a_job(array="y", array_max=1),
    ]
    assert len({class_of(job) for job in jobs}) == len(jobs)


def test_what_no_rule_looks_at_makes_no_class() -> None:
    jobs = [
        a_job("a", submitted_at=1),
        a_job("b", max_retries=3, preemptible=False, requeue=True, lease=True),
        a_job("c", after=("a",)),
        a_job("d", array="uncapped"),
    ]
    assert len({class_of(job) for job in jobs}) == 1


def test_a_class_is_served_oldest_first_then_by_id() -> None:
    waiting = WaitingQueue()
    queue = waiting.join(class_of(a_job()))
    for at, job_id in [(5, "b"), (5, "a"), (-3, "z"), (9, "c")]:
        waiting.add(queue, at, JobId(job_id))
    assert [job_id for _, job_id in queue.keys] == ["z", "a", "b", "c"]
    assert len(waiting) == 4


def test_a_class_in_which_nobody_waits_is_not_offered() -> None:
    waiting = WaitingQueue()
    queue = waiting.join(class_of(a_job()))
    waiting.add(queue, 0, JobId("a"))
    waiting.discard(queue, 0, JobId("a"))
    assert list(waiting.classes()) == []
    assert list(waiting.all_classes()) == [queue]
    assert len(waiting) == 0


def test_a_class_without_jobs_is_forgotten() -> None:
    waiting = WaitingQueue()
    waiting.leave(waiting.join(class_of(a_job())))
    assert list(waiting.all_classes()) == []
