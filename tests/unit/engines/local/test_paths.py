from pathlib import Path

import pytest

from tgpu.engines.api import AttemptKey
from tgpu.engines.local.paths import attempt_dir


def test_every_attempt_has_a_directory_of_its_own() -> None:
    assert attempt_dir(Path("/d"), AttemptKey("train-1.a", 3)) == Path("/d/jobs/train-1.a/3")


@pytest.mark.parametrize("job_id", ["", ".", "..", "a/b", "../a", "a..b", ".hidden", "a\0b"])
def test_a_job_id_that_could_lead_elsewhere_is_refused(job_id: str) -> None:
    with pytest.raises(ValueError, match="job id"):
        attempt_dir(Path("/d"), AttemptKey(job_id, 1))
