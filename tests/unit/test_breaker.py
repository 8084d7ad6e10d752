from tgpu.breaker import CLOSED, Breaker, BreakerRules, BreakerState

RULES = BreakerRules(failures=3, retry_ms=1000)


def failed(times: int, breaker: Breaker = CLOSED, at: int = 0) -> Breaker:
    for number in range(times):
        breaker = breaker.failed(at + number, f"problem {number}", RULES)
    return breaker


def test_a_few_failures_are_nothing() -> None:
    breaker = failed(2)
    assert breaker.is_closed
    assert breaker.may_call(2, RULES)
    assert breaker.problem == "problem 0"


def test_several_in_a_row_open_it_and_nobody_may_call_for_a_while() -> None:
    breaker = failed(3)
    assert breaker.state is BreakerState.OPEN
    assert not breaker.may_call(1001, RULES)
    assert breaker.may_call(1002, RULES)


def test_one_call_tries_it() -> None:
    trying = failed(3).called()
    assert trying.state is BreakerState.HALF_OPEN
    assert not trying.may_call(10_000, RULES)


def test_a_try_that_fails_opens_it_again_and_the_first_problem_stays() -> None:
    again = failed(3).called().failed(2000, "another", RULES)
    assert (again.state, again.problem) == (BreakerState.OPEN, "problem 0")
    assert not again.may_call(2999, RULES)
    assert again.may_call(3000, RULES)


def test_calls_while_it_is_closed_change_nothing() -> None:
    assert CLOSED.called() is CLOSED


def test_a_try_that_tells_nothing_leaves_it_to_the_next() -> None:
    open_ = failed(3)
    assert open_.called().given_up() == open_
    assert CLOSED.given_up() is CLOSED
