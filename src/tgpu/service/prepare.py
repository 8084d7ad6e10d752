"""Prepares a submission: its size by model, its environment, and what the engine supports.

Nothing that a caller names is looked up here: no file, no program, no folder. That is done when the
job starts, as its user.
"""

from dataclasses import replace

from tgpu.core.errors import InvalidRequest
from tgpu.core.model.units import memory_text
from tgpu.engines.api import Binding, Engine
from tgpu.service.commands.python_environment import checked
from tgpu.service.commands.submission import Submission
from tgpu.service.execution.attempts import LaunchSettings
from tgpu.service.forecast.sizes import Sizes

_MIB = 1024**2


class Preparation:
    def __init__(
        self,
        sizes: Sizes,
        launch: LaunchSettings,
        mail_domains: frozenset[str] | None = None,
        engine: Engine | None = None,
    ) -> None:
        """Jobs may have mail sent to `mail_domains`: empty, to all; None, to none.

        Without an engine every job is a lease, and what it carries is for whoever uses it.
        """
        self._engine = engine
        self._mail_domains = mail_domains
        self._sizes = sizes
        self._launch = launch

    def __call__(self, submission: Submission) -> tuple[Submission, tuple[str, ...]]:
        """As it will be queued, and what the caller should know of it."""
        self._check_memory(submission)
        self._check_mail(submission.detail.mail_to)
        self._check_image(submission.detail.image)
        if self._engine is not None:
            _check_engine(submission, self._engine)
        self._check_log_limit(submission.detail.log_limit_mib)
        submission = self._limited(submission)
        submission, note = self._sizes.sized(submission)
        _check_session(submission)
        return checked(submission), (note,) if note else ()

    def _limited(self, submission: Submission) -> Submission:
        limit, options = self._launch.time_limit_ms, submission.options
        if limit is None or options.time_limit_ms is not None or options.lease:
            return submission
        return replace(submission, options=replace(options, time_limit_ms=limit))

    def _check_log_limit(self, asked: int | None) -> None:
        """A disk has room for so much, whoever asks."""
        most = self._launch.log_limit_mib
        if asked is not None and most is not None and not 0 < asked <= most:
            remedy = f"at most {most} here, by jobs.log_limit_mb, which is also the default"
            raise InvalidRequest("log_limit_mb", asked, remedy)

    def _check_memory(self, submission: Submission) -> None:
        most = self._launch.limits.memory_bytes
        asked = submission.request.mem_mib
        if most is not None and asked * _MIB > most:
            remedy = f"at most {memory_text(most // _MIB)}, by security.max_memory_per_job_gb"
            raise InvalidRequest("memory_mb", memory_text(asked), remedy)

    def _check_mail(self, addresses: tuple[str, ...]) -> None:
        domains = self._mail_domains
        if addresses and domains is None:
            remedy = (
                "this service sends no mail for jobs; its settings have no notice with "
                "for_jobs: true"
            )
            raise InvalidRequest("mail_to", list(addresses), remedy)
        for address in addresses:
            if domains and address.rpartition("@")[2].lower() not in domains:
                remedy = f"this service sends mail only to {', '.join(sorted(domains))}"
                raise InvalidRequest("mail_to", address, remedy)

    def _check_image(self, image: str) -> None:
        """Taken and then run without it, a job would be another one than was asked for."""
        engine = self._engine
        if image and engine is not None and not engine.capabilities.images:
            remedy = (
                f"the {engine.name} engine runs commands on the machine itself and not in "
                "container images; leave it out"
            )
            raise InvalidRequest("image", image, remedy)


def _check_engine(submission: Submission, engine: Engine) -> None:
    """What only an engine can keep that binds as we say, or has its processes here."""
    where, detail = submission.request.where, submission.detail
    if engine.capabilities.binding is not Binding.EXACT:
        for field, gpus in (("allowed_gpus", where.gpus), ("excluded_gpus", where.not_gpus)):
            if gpus:
                remedy = f"the {engine.name} engine picks the GPUs of a node itself; leave it out"
                raise InvalidRequest(field, list(gpus), remedy)
    if not engine.capabilities.local_processes and (detail.screen or detail.tmux):
        remedy = f"the {engine.name} engine has no terminals on this machine; leave it out"
        raise InvalidRequest("tmux" if detail.tmux else "screen", True, remedy)


def _check_session(submission: Submission) -> None:
    detail = submission.detail
    if not (detail.screen or detail.tmux):
        return
    program = "tmux" if detail.tmux else "screen"
    if detail.tmux and detail.screen:
        raise InvalidRequest("tmux", True, "a job runs in a session of screen or of tmux, not both")
    if submission.request.workers > 1:
        raise InvalidRequest(program, True, "a job of several workers has no terminal of its own")
