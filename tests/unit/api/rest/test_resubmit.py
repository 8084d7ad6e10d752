"""A job as the command that would submit it: what is typed makes the same job again."""

import shlex

import pytest

from gpu_scheduler.api.rest.convert import submission_of
from gpu_scheduler.api.rest.resubmit import resubmit_command, size_text, span_text
from gpu_scheduler.cli.submission import Submitter, build_request
from gpu_scheduler.core.job import Detail, Job
from tests.builders import a_job
from tests.unit.cli.test_submission import typed_of  # noqa: F401  # see below if it is missing

DETAIL = Detail(name="my run", argv=("python", "train.py", "--text", "a b"), cwd="/work dir")
