"""What jobs submitted together tell of each other."""

from tests.builders import a_job
from tgpu.core.model.job import class_of
from tgpu.core.model.lifecycle import JobState, Progress
from tgpu.core.prediction.nearby_submissions import NearbyRunTimes, NearbySubmissions
from tgpu.core.prediction.runtimes import Forecast, History

HOUR = 3_600_000
CLASS = class_of(a_job())


def ran(known, job_id, at, ran_ms):
    job = a_job(job_id, submitted_at=at)
    known.began(job, at)
    known.ended(job, ran_ms)


def told(known, submitted_at, now, usual_ms) -> int:
    found: int | None = known.length_ms(CLASS, submitted_at, now, usual_ms)
    assert found is not None
    return found


def test_nothing_known_tells_the_usual_or_nothing():
    assert NearbySubmissions().length_ms(CLASS, 0, 0, 70) == 70
    assert NearbySubmissions().length_ms(CLASS, 0, 0, None) is None


def test_a_job_is_told_by_those_submitted_next_to_it():
    known = NearbySubmissions()
    ran(known, "quick", 0, 1_000)
    ran(known, "slow", 10 * HOUR, HOUR)
    beside_quick = told(known, 1, 11 * HOUR, HOUR)
    beside_slow = told(known, 10 * HOUR + 1, 11 * HOUR, HOUR)
    assert beside_quick < HOUR * 6 // 10
    assert beside_slow > HOUR * 9 // 10


def test_who_runs_and_runs_makes_its_neighbours_long():
    known = NearbySubmissions()
    known.began(a_job("first", submitted_at=0), 0)
    early = told(known, 1, 1_000, 1_000)
    late = told(known, 1, HOUR, 1_000)
    far = told(known, HOUR, HOUR, 1_000)
    assert early < late
    assert far < late  # of one submitted much later nobody knows as much


def test_other_users_and_other_sizes_are_no_neighbours():
    known = NearbySubmissions()
    ran(known, "quick", 0, 1_000)
    assert known.length_ms(class_of(a_job(gpus=2)), 0, 0, 70) == 70
    assert known.length_ms(class_of(a_job(user="grace")), 0, 0, 70) == 70


def test_a_preempted_job_says_nothing():
    known = NearbySubmissions()
    job = a_job("back")
    known.began(job, 0)
    known.moved(job, Progress(JobState.PENDING))
    assert known.length_ms(CLASS, 0, HOUR, 70) == 70
    assert known.begun_since(CLASS, 0) == 0


def test_the_end_of_one_that_was_preempted_before_is_not_taken_for_a_short_run():
    known = NearbySubmissions()
    job = a_job("back")
    known.began(job, 0)
    known.moved(job, Progress(JobState.COMPLETED, preemptions=1, started_at=0, ended_at=9 * HOUR))
    assert known.usual_ms(CLASS) is None
    assert known.length_ms(CLASS, 0, 9 * HOUR, 70) == 70


def test_an_end_is_learned_once_however_often_the_job_is_reported():
    known = NearbySubmissions()
    ran(known, "one", 0, 50)
    known.began(a_job("one"), 0)
    known.ended(a_job("one"), 999)
    assert known.length_ms(CLASS, 0, 0, None) == 50
    assert known.begun_since(CLASS, 0) == 1


def test_memory_is_bounded():
    known = NearbySubmissions()
    for number in range(3_000):
        ran(known, f"j{number:05}", number, 10)
    assert known.begun_since(CLASS, 0) == 1_024
    assert known.length_ms(CLASS, 0, 0, None) == 10


def test_nobody_is_expected_to_run_beyond_its_limit():
    known = NearbySubmissions()
    ran(known, "slow", 0, HOUR)
    limited = class_of(a_job(time_limit_ms=1_000))
    assert NearbyRunTimes(Forecast(History()), known).length_ms(limited, 0, 0) == 1_000


def test_the_first_of_a_kind_is_told_by_others():
    forecast, known = Forecast(History()), NearbySubmissions()
    forecast.learn(a_job("other", gpus=1, user="grace"), 5_000, 0)
    assert NearbyRunTimes(forecast, known).length_ms(class_of(a_job(user="ada")), 0, 0) == 5_000
