"""Before a submission is checked: the size that its model needs, the environment it runs in."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace

from gpu_scheduler.core.errors import InvalidRequest
from gpu_scheduler.service.accounts import account_of
from gpu_scheduler.service.attempts import LaunchSettings
from gpu_scheduler.service.run_in import wrapped
from gpu_scheduler.service.scripts import NotAllowed
from gpu_scheduler.service.sizes import Sizes
from gpu_scheduler.service.submission import Submission

_MIB = 1024**2


class Preparation:
    def __init__(self, sizes: Sizes, launch: LaunchSettings) -> None:
        self._sizes = sizes
        self._launch = launch

    def __call__(self, submission: Submission) -> tuple[Submission, tuple[str, ...]]:
        """As it will be queued, and what the caller should know of it."""
        self._check_memory(submission)
        submission = self._limited(submission)
        submission, note = self._sizes.sized(submission)
        notes = (note,) if note else ()
        detail = submission.detail
        if submission.run_in is None and not detail.screen and not self._launch.scripts.allowed:
            return submission, notes  # most are plain, and looking up a user may take its time
        account = None if detail.uid is None else account_of(detail.uid)
        base = submission.base_environment or self._launch.default_environment
        home = account.home if account is not None else self._launch.home
        variables = {**base, **dict(detail.env)}
        if submission.run_in is not None:
            submission = wrapped(submission, variables, home)
        self._check_script(submission, variables, home)
        if detail.screen:
            _check_screen(submission, variables)
        return submission, notes

    def _limited(self, submission: Submission) -> Submission:
        limit, options = self._launch.time_limit_ms, submission.options
        if limit is None or options.time_limit_ms is not None or options.lease:
            return submission
        return replace(submission, options=replace(options, time_limit_ms=limit))

    def _check_memory(self, submission: Submission) -> None:
        most = self._launch.limits.memory_bytes
        asked = submission.request.mem_mib
        if most is not None and asked * _MIB > most:
            remedy = f"at most {most // _MIB}, by security.max_memory_per_job_gb"
            raise InvalidRequest("memory_mb", asked, remedy)

    def _check_script(
        self, submission: Submission, variables: Mapping[str, str], home: str
    ) -> None:
        detail = submission.detail
        try:
            self._launch.scripts.check(detail.argv, detail.cwd or home, variables)
        except NotAllowed as error:
            raise InvalidRequest("command", error.what, str(error)) from error


def _check_screen(submission: Submission, variables: Mapping[str, str]) -> None:
    if submission.request.workers > 1:
        raise InvalidRequest("screen", True, "a job of several workers has no terminal of its own")
    if shutil.which("screen", path=variables.get("PATH", os.defpath)) is None:
        raise InvalidRequest("screen", True, "GNU screen is not installed; apt install screen")
