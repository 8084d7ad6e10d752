from tgpu.token_buckets import TokenBuckets


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_caller_may_burst_and_then_goes_at_the_rate():
    clock = Clock()
    buckets = TokenBuckets(2, 3, clock)
    assert [buckets.take("ada") for _ in range(4)] == [0, 0, 0, 0.5]
    clock.now = 0.5
    assert buckets.take("ada") == 0
    assert buckets.take("ada") == 0.5


def test_one_caller_does_not_use_up_what_another_has():
    buckets = TokenBuckets(1, 1, Clock())
    assert buckets.take("ada") == 0
    assert buckets.take("bob") == 0
    assert buckets.take("ada") > 0


def test_a_pause_fills_the_bucket_no_further_than_its_size():
    clock = Clock()
    buckets = TokenBuckets(1, 2, clock)
    clock.now = 1000
    assert [buckets.take("ada") for _ in range(3)] == [0, 0, 1]


def test_no_rate_is_no_limit():
    buckets = TokenBuckets(0, 1, Clock())
    assert not any(buckets.take("ada") for _ in range(100))


def test_callers_who_are_many_are_forgotten_and_not_kept_for_ever():
    buckets = TokenBuckets(1, 1, Clock())
    for number in range(20_000):
        buckets.take(f"caller-{number}")
    assert len(buckets._buckets) <= 10_000
