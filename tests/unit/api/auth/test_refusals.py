from tgpu.api.auth.refusals import Refusals
from tgpu.service.recording.audit import Trail


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_strangers_have_one_row_in_a_while_and_the_next_tells_of_the_rest():
    clock = Clock()
    refusals = Refusals(60, clock)
    trail = Trail("nobody", "CancelJob", "192.0.2.1")
    first = refusals.row(trail, "UNAUTHENTICATED", "who are you")
    assert first is not None
    assert first.detail == "who are you"
    assert [refusals.row(trail, "UNAUTHENTICATED", "x") for _ in range(41)] == [None] * 41
    clock.now = 60.0
    later = refusals.row(trail, "UNAUTHENTICATED", "who are you")
    assert later is not None
    assert "41 calls of strangers more" in later.detail


def test_every_refusal_is_counted():
    refusals = Refusals()
    for _ in range(3):
        refusals.count("grpc", "UNAUTHENTICATED")
    (metric,) = refusals.collect()
    (sample,) = metric.samples
    assert (sample.value, sample.labels) == (3, {"door": "grpc", "code": "UNAUTHENTICATED"})
