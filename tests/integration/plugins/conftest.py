import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_service import RealService

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "tgpu-plugins-of-a-third-party"
version = "1"

[project.entry-points."tgpu.policies"]
backwards = "third_party:Backwards"
moody = "third_party:Moody"
no-policy = "third_party:NoPolicy"
broken = "third_party_broken:Anything"

[project.entry-points."tgpu.quota"]
one-gpu = "third_party:OneGpuEach"
lost = "third_party:Lost"
failing = "third_party:Failing"

[project.entry-points."tgpu.predictors"]
one-hour = "third_party:OneHour"
clueless = "third_party:Clueless"

[tool.setuptools]
py-modules = ["third_party", "third_party_broken"]
"""

PLUGINS = '''
from pathlib import Path
from tgpu.policies import SchedulingPolicy
from tgpu.predictors import Confidence, Level, Prediction
from tgpu.quota import NotConfigured, QuotaInfo, QuotaProvider


class Backwards(SchedulingPolicy):
    def select_next_job(self, queue, pending_jobs):
        return max(pending_jobs, key=lambda job: (job.submitted_at, job.job_id), default=None)


class Moody(SchedulingPolicy):
    """Fails as long as a job named so waits."""

    def select_next_job(self, queue, pending_jobs):
        if any(job.job_id == "unlucky" for job in pending_jobs):
            raise ZeroDivisionError("not in the mood")
        return pending_jobs[0]


class NoPolicy:
    pass


class OneGpuEach(QuotaProvider):
    name = "one-gpu"

    def __init__(self):
        self.used = {}

    def get_quota(self, project_id):
        return QuotaInfo(project_id, gpu_quota=1.0, used_gpu=self.used.get(project_id, 0.0))

    def check_quota(self, project_id, resources, job_type):
        return self.used.get(project_id, 0.0) + resources.gpu <= 1

    def allocate_quota(self, project_id, resources, job_type):
        if not self.check_quota(project_id, resources, job_type):
            return False
        self.used[project_id] = self.used.get(project_id, 0.0) + resources.gpu
        return True

    def release_quota(self, project_id, resources, job_type):
        self.used[project_id] -= resources.gpu


class Lost(OneGpuEach):
    def __init__(self):
        raise NotConfigured("nobody told me where the quotas are")


class OneHour:
    def learn(self, facts, duration_ms, at):
        pass

    def predict(self, facts, elapsed_ms=0, at=0):
        return Prediction(3_600_000, 7_200_000, Confidence(Level.MODEL, 12))


class Clueless(OneHour):
    def predict(self, facts, elapsed_ms=0, at=0):
        raise KeyError("crystal ball")


class Failing(OneGpuEach):
    name = "failing"

    def allocate_quota(self, project_id, resources, job_type):
        raise ConnectionError("the quota server is away")
'''


@pytest.fixture(scope="session")
def third_party(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package of somebody else, installed by pip into a directory of its own."""
    source = tmp_path_factory.mktemp("third-party-source")
    target = tmp_path_factory.mktemp("third-party")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "third_party.py").write_text(PLUGINS)
    (source / "third_party_broken.py").write_text("raise RuntimeError('half installed')\n")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index"]
    command += ["--no-build-isolation", "--no-deps", "--disable-pip-version-check"]
    command += ["--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture
def service(
    third_party: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[RealService]:
    """A service, not started, that can import the package; the marker's settings choose from it."""
    with RealService(
        tmp_path,
        gpus="sim:2xA100",
        settings={"engine": {"kind": "none"}, **getattr(request, "param", {})},
        environ={"PYTHONPATH": str(third_party)},
    ) as ready:
        yield ready
