"""Before a submission is checked: the size that its model needs, the environment it runs in."""

from gpu_scheduler.service.accounts import account_of
from gpu_scheduler.service.attempts import LaunchSettings
from gpu_scheduler.service.run_in import wrapped
from gpu_scheduler.service.sizes import Sizes
from gpu_scheduler.service.submission import Submission


class Preparation:
    def __init__(self, sizes: Sizes, launch: LaunchSettings) -> None:
        self._sizes = sizes
        self._launch = launch

    def __call__(self, submission: Submission) -> tuple[Submission, tuple[str, ...]]:
        """As it will be queued, and what the caller should know of it."""
        submission, note = self._sizes.sized(submission)
        if submission.run_in is not None:
            detail = submission.detail
            account = None if detail.uid is None else account_of(detail.uid)
            base = submission.base_environment or self._launch.default_environment
            home = account.home if account is not None else self._launch.home
            submission = wrapped(submission, {**base, **dict(detail.env)}, home)
        return submission, (note,) if note else ()
