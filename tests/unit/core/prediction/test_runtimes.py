"""Run times told from similar jobs of the past."""

import pytest

from tests.builders import a_job, a_state, started
from tgpu.core.cycle import schedule
from tgpu.core.model import lifecycle
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import Detail, class_of
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.core.policies.shortest import Shortest
from tgpu.core.prediction.runtimes import (
    Confidence,
    Facts,
    Forecast,
    History,
    Level,
    LimitPredictor,
    NoPredictor,
    Prediction,
    by_its_own,
    facts_of,
    runtime_ms,
    template,
    weaker,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR


def facts(user: str = "ada", gpus: int = 1, tenant: str = "t", **more) -> Facts:
    return Facts(tenant, user, gpus * 1000, **more)


def taught(*lessons: tuple[Facts, int], at: int = 0) -> History:
    history = History()
    for about, duration in lessons:
        history.learn(about, duration, at)
    return history


def told(predicted: Prediction | None) -> Prediction:
    assert predicted is not None
    return predicted


# -- templates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("train-07", "train-#"),
        ("Train", "train"),
        ("lr=0.001", "lr=#"),
        ("run 0xBEEF", "run #"),
        ("eval-9f8a7c21", "eval-#"),
        ("123e4567-e89b-12d3-a456-426614174000", "#"),
        ("resnet50", "resnet#"),
        ("facade", "facade"),  # a word, though it could be a number
        ("", ""),
    ],
)
def test_a_template_is_the_text_without_its_numbers(text, expected):
    assert template(text) == expected


def test_templates_have_a_bounded_length():
    assert len(template("x" * 100_000)) == 200


def test_the_facts_of_a_job_are_its_owner_its_size_and_the_templates():
    job = a_job(gpus=2, gpu_type="A100", user="ada", time_limit_ms=HOUR)
    found = facts_of(job, Detail(name="run 3", argv=("python", "train.py", "--seed", "17")))
    assert found == Facts(
        "default", "ada", 2000, "A100", "run #", "python train.py --seed #", HOUR, found.exact
    )
    other = facts_of(job, Detail(name="run 3", argv=("python", "train.py", "--seed", "18")))
    assert (found.exact == other.exact, found.command == other.command) == (False, True)


# -- what people are told of a job with a limit --------------------------------------------------

BY_LIMIT = Prediction(HOUR, HOUR, Confidence(Level.LIMIT, 0))
AN_HOUR = facts(command="sleep #", exact="sleep 3600", time_limit_ms=HOUR)


@pytest.mark.parametrize(
    "demo",
    [
        facts(command="echo"),
        facts(command="echo", time_limit_ms=HOUR),
        facts(command="sleep #", exact="sleep 2"),
        facts(command="sleep #", exact="sleep 2", time_limit_ms=10_000),
    ],
    ids=["of its user", "with the same limit", "but for numbers", "with another limit"],
)
def test_demos_of_two_seconds_say_nothing_of_a_job_with_an_hour(demo):
    history = taught(*[(demo, 2000)] * 19)
    assert by_its_own(AN_HOUR, history.predict(AN_HOUR)) == BY_LIMIT


def test_runs_of_the_same_command_are_believed_more_than_the_limit():
    history = taught(*[(facts(command="sleep #", exact="sleep 3600"), 2000)] * 19)
    found = told(by_its_own(AN_HOUR, history.predict(AN_HOUR)))
    assert (found.p50_ms, found.confidence) == (2000, Confidence(Level.EXACT, 19))


def test_two_runs_of_the_same_command_are_too_few():
    history = taught(*[(AN_HOUR, 2000)] * 2)
    assert by_its_own(AN_HOUR, history.predict(AN_HOUR)) == BY_LIMIT


def test_a_run_that_outlasts_all_of_its_kind_goes_by_its_limit():
    history = taught(*[(AN_HOUR, 2000)] * 19)
    assert by_its_own(AN_HOUR, history.predict(AN_HOUR, MINUTE), MINUTE) == BY_LIMIT


def test_the_weaker_of_two_is_the_less_sure_and_then_the_one_of_fewer_runs():
    few, many = Confidence(Level.EXACT, 3), Confidence(Level.EXACT, 30)
    guess = Confidence(Level.NOTHING, 0)
    assert weaker(few, many) == weaker(many, few) == few
    assert weaker(many, guess) == guess
    assert weaker(None, many) == weaker(many, None) == many


# -- what counts -------------------------------------------------------------------------------


def over(state: JobState = JobState.COMPLETED, **fields) -> Progress:
    return Progress(state=state, **{"started_at": 1000, "ended_at": 4000, **fields})


@pytest.mark.parametrize("state", [JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED])
def test_a_job_that_is_over_ran_from_its_start_to_its_end(state):
    assert runtime_ms(over(state)) == 3000


@pytest.mark.parametrize(
    "progress",
    [
        lifecycle.PENDING,
        Progress(state=JobState.RUNNING, started_at=1000),
        over(JobState.CANCELLED, started_at=None),
        over(JobState.CANCELLED, started_at=4000),
        over(preemptions=1),
    ],
    ids=["waits", "runs", "cancelled in the queue", "cancelled at its start", "preempted"],
)
def test_nothing_is_learned_from_jobs_that_did_not_run_all_at_once(progress):
    assert runtime_ms(progress) is None


# -- history -----------------------------------------------------------------------------------


def test_who_knows_nothing_tells_the_time_limit():
    assert History().predict(facts()) is None
    found = History().predict(facts(time_limit_ms=HOUR))
    assert found == Prediction(HOUR, HOUR, Confidence(Level.LIMIT, 0))


def test_half_of_the_known_jobs_were_over_by_the_p50_and_nine_of_ten_by_the_p90():
    history = taught(*((facts(), minutes * MINUTE) for minutes in range(1, 101)))
    found = told(history.predict(facts()))
    assert found.p50_ms < found.p90_ms
    # The newest weigh more, and here the newest are the longest.
    assert 50 * MINUTE < found.p50_ms <= 98 * MINUTE


def test_the_most_similar_jobs_decide_when_there_are_enough():
    mine = [(facts(name="train-#"), HOUR)] * 30
    others = [(facts("bob"), MINUTE)] * 30
    history = taught(*others, *mine)
    found = told(history.predict(facts(name="train-#")))
    assert found.p50_ms == HOUR
    assert found.confidence == Confidence(Level.NAME, 30)


def test_one_similar_job_says_something_and_others_the_rest():
    history = taught(*[(facts("bob"), MINUTE)] * 30, (facts("ada"), HOUR))
    found = told(history.predict(facts("ada")))
    assert (found.p50_ms, found.p90_ms) == (MINUTE, HOUR)


@pytest.mark.parametrize(
    ("asked", "level"),
    [
        (facts(name="n", command="c", gpu_type="A100"), Level.COMMAND),
        (facts(name="n", command="other"), Level.NAME),
        (facts(name="other"), Level.USER),
        (facts("bob"), Level.TENANT),
        (facts("bob", tenant="elsewhere"), Level.SIZE),
        (facts("bob", gpus=8, tenant="elsewhere"), Level.ANY),
    ],
    ids=lambda value: value.value if isinstance(value, Level) else "",
)
def test_the_confidence_names_the_level(asked, level):
    lesson = (facts(name="n", command="c", gpu_type="A100"), MINUTE)
    history = taught(*[lesson] * 40)
    assert told(history.predict(asked)).confidence == Confidence(level, 40)


def test_recent_jobs_weigh_more_than_old_ones():
    history = taught(*[(facts(), MINUTE)] * 10)
    for _ in range(5):
        history.learn(facts(), HOUR, 30 * DAY)
    assert told(history.predict(facts(), 0, 30 * DAY)).p50_ms == HOUR


def test_a_user_who_was_away_is_predicted_more_by_others():
    history = taught(*[(facts("ada"), HOUR)] * 8)
    for _ in range(50):
        history.learn(facts("bob"), MINUTE, 300 * DAY)
    assert told(history.predict(facts("ada"), 0, DAY)).p50_ms == HOUR
    assert told(history.predict(facts("ada"), 0, 300 * DAY)).p50_ms == MINUTE


def test_a_job_that_runs_is_told_by_those_that_ran_longer():
    history = taught(*[(facts(), MINUTE)] * 20, *[(facts(), HOUR)] * 4)
    assert told(history.predict(facts(), 2 * MINUTE)).p50_ms == HOUR
    assert told(history.predict(facts(), 2 * MINUTE)).confidence.samples == 4


def test_a_job_that_runs_longer_than_all_known_ones_is_told_by_itself():
    found = told(taught((facts(), MINUTE)).predict(facts(), HOUR))
    assert found == Prediction(2 * HOUR, 10 * HOUR, Confidence(Level.ELAPSED, 0))


def test_nothing_runs_longer_than_its_limit():
    history = taught(*[(facts(), 10 * HOUR)] * 10)
    found = told(history.predict(facts(time_limit_ms=HOUR)))
    assert (found.p50_ms, found.p90_ms) == (HOUR, HOUR)


def test_what_has_not_ended_for_the_longest_is_forgotten():
    history = History(most_keys=10)
    for number in range(1000):
        history.learn(facts(f"user{number}"), MINUTE, number)
    assert len(history) == 10
    assert told(history.predict(facts("user999"))).confidence.samples > 0
    assert told(history.predict(facts("user0"))).confidence.level is not Level.USER


# -- the others --------------------------------------------------------------------------------


def test_the_limit_predictor_believes_limits_alone():
    limit = LimitPredictor()
    limit.learn(facts(), MINUTE, 0)
    assert limit.predict(facts()) is None
    assert told(limit.predict(facts(time_limit_ms=HOUR))).p90_ms == HOUR
    assert told(limit.predict(facts(time_limit_ms=HOUR), 2 * HOUR)).p50_ms == 2 * HOUR


def test_the_predictor_none_says_nothing():
    assert NoPredictor().predict(facts(time_limit_ms=HOUR)) is None


# -- what orders and preemption are told -------------------------------------------------------


def forecast_of(*lessons: tuple[str, int]) -> Forecast:
    forecast = Forecast(History())
    for user, duration in lessons:
        forecast.learn(a_job(user=user), duration, 0)
    return forecast


def test_shortest_goes_by_what_is_predicted():
    state = a_state(
        a_job("slow", user="ada", submitted_at=1), a_job("quick", user="bob", submitted_at=2)
    )
    forecast = forecast_of(*[("ada", HOUR)] * 10, *[("bob", MINUTE)] * 10)
    assert started(schedule(state, 5, Shortest())) == ["slow", "quick"]
    assert started(schedule(state, 5, Shortest(predicted=forecast))) == ["quick", "slow"]


def test_a_time_limit_tells_more_than_what_others_ran_for():
    forecast = forecast_of(*[("ada", HOUR)] * 10)
    said = class_of(a_job(user="new", time_limit_ms=MINUTE))
    unsaid = class_of(a_job(user="new"))
    assert forecast(said, 0) is None
    assert forecast(unsaid, 0) == HOUR


def test_a_forecast_follows_what_it_learns():
    forecast = forecast_of(*[("ada", HOUR)] * 10)
    mine = class_of(a_job(user="ada"))
    assert forecast(mine, 0) == HOUR
    for _ in range(20):
        forecast.learn(a_job(user="ada"), MINUTE, 0)
    assert forecast(mine, 0) == MINUTE


def test_what_is_left_is_told_only_of_users_who_are_known_well():
    forecast = forecast_of(*[("ada", HOUR)] * 20, *[("bob", HOUR)] * 3)
    assert forecast.left_ms(a_job(user="ada"), 59 * MINUTE, 0) == MINUTE
    assert forecast.left_ms(a_job(user="bob"), 59 * MINUTE, 0) is None
    assert forecast.left_ms(a_job(user="cid"), 59 * MINUTE, 0) is None


def test_ids_of_jobs_do_not_matter_to_a_forecast():
    assert class_of(a_job(JobId("1"))) == class_of(a_job(JobId("2")))
