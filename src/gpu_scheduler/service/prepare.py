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
    def __init__(
        self,
        sizes: Sizes,
        launch: LaunchSettings,
        mail_domains: frozenset[str] | None = None,
    ) -> None:
        """Jobs may have mail sent to `mail_domains`: empty, to all; None, to none."""
        self._mail_domains = mail_domains
        self._sizes = sizes
        self._launch = launch

    def __call__(self, submission: Submission) -> tuple[Submission, tuple[str, ...]]:
        """As it will be queued, and what the caller should know of it."""
        self._check_memory(submission)
        self._check_mail(submission.detail.mail_to)
        submission = self._limited(submission)
        submission, note = self._sizes.sized(submission)
        notes = (note,) if note else ()
        detail = submission.detail
        session = detail.screen or detail.tmux
        if submission.run_in is None and not session and not self._launch.scripts.allowed:
            return submission, notes  # most are plain, and looking up a user may take its time
        account = None if detail.uid is None else account_of(detail.uid)
        base = submission.base_environment or self._launch.default_environment
        home = account.home if account is not None else self._launch.home
        variables = {**base, **dict(detail.env)}
        if submission.run_in is not None:
            submission = wrapped(submission, variables, home)
        self._check_script(submission, variables, home)
        if session:
            _check_session(submission, variables)
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

    def _check_mail(self, addresses: tuple[str, ...]) -> None:
        domains = self._mail_domains
        if addresses and domains is None:
            remedy = "this service writes no mail for jobs; notices of its settings could"
            raise InvalidRequest("mail_to", list(addresses), remedy)
        for address in addresses:
            if domains and address.rpartition("@")[2].lower() not in domains:
                remedy = f"this service writes only to {', '.join(sorted(domains))}"
                raise InvalidRequest("mail_to", address, remedy)

    def _check_script(
        self, submission: Submission, variables: Mapping[str, str], home: str
    ) -> None:
        detail = submission.detail
        try:
            self._launch.scripts.check(detail.argv, detail.cwd or home, variables)
        except NotAllowed as error:
            raise InvalidRequest("command", error.what, str(error)) from error


def _check_session(submission: Submission, variables: Mapping[str, str]) -> None:
    detail = submission.detail
    program = "tmux" if detail.tmux else "screen"
    if detail.tmux and detail.screen:
        raise InvalidRequest("tmux", True, "a job runs in a session of screen or of tmux, not both")
    if submission.request.workers > 1:
        raise InvalidRequest(program, True, "a job of several workers has no terminal of its own")
    if shutil.which(program, path=variables.get("PATH", os.defpath)) is None:
        name = "tmux" if detail.tmux else "GNU screen"
        raise InvalidRequest(program, True, f"{name} is not installed; apt install {program}")
