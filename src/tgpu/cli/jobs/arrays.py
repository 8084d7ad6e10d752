"""What to show if a whole array is given where one job is expected."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tgpu.client.errors import ClientError

if TYPE_CHECKING:
    from tgpu.client.http import Client
    from tgpu.wire.arrays_v1 import ArraySummary

_T = TypeVar("_T")


def job_or_array(client: "Client", name: str, ask: Callable[[str], _T]) -> "_T | ArraySummary":
    """What is asked of the job; or the array of that name, where there is no such job."""
    try:
        return ask(name)
    except ClientError as error:
        array = array_of(client, name, error)
        if array is None:
            raise
        return array


def array_of(client: "Client", name: str, error: ClientError) -> "ArraySummary | None":
    """The array, where the error says that there is no job of this name; None: none either."""
    if error.code != "JOB_NOT_FOUND":
        return None
    try:
        return client.get_array(name)
    except ClientError as none:
        if none.code not in ("NOT_FOUND", "JOB_NOT_FOUND"):
            raise
        return None
