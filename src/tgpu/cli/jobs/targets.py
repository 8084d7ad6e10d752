"""Which jobs the ids on a command line mean: a job, `last`, or all elements of an array."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tgpu.cli.failures import Failure, of_client_error
from tgpu.cli.render.jobs import natural_key
from tgpu.client.errors import ClientError, NoService
from tgpu.client.http import Client


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one id: an answer or a failure."""

    job_id: str
    answer: object | None = None
    failure: Failure | None = None


def on_each(
    client: Client, ids: Sequence[str], act: Callable[[str], object], states: Sequence[str] = ()
) -> list[Done]:
    """Act on every id; one that fails does not stop the rest. Arrays are unfolded, to `states`."""
    results: list[Done] = []
    for job_id in ids:
        first = _try(job_id, act)
        unknown = first.failure is not None and first.failure.code == "JOB_NOT_FOUND"
        elements = elements_of(client, job_id, states) if unknown else []
        results += [_try(element, act) for element in elements] or [first]
    return results


def elements_of(client: Client, array_id: str, states: Sequence[str] = ()) -> list[str]:
    jobs = client.iter_jobs(array_id=array_id, states=states)
    return sorted((job.job_id for job in jobs), key=natural_key)


def _try(job_id: str, act: Callable[[str], object]) -> Done:
    try:
        return Done(job_id, answer=act(job_id))
    except NoService:
        raise
    except ClientError as error:
        return Done(job_id, failure=of_client_error(error))
