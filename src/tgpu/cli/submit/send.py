"""One run of `tgpu submit`: check, connect, send, report, perhaps wait for the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tgpu.cli import environment, own_config
from tgpu.cli.connect import connected, ensure_service
from tgpu.cli.exit_codes import ExitCode, exit_code_of_job
from tgpu.cli.failures import Failure, of_client_error
from tgpu.cli.output import note, say, show_json, show_lines, write_bytes
from tgpu.cli.render.estimate import when_lines
from tgpu.cli.render.jobs import ended_line, gpus_held, queued_lines, waiting_line
from tgpu.cli.submit import secrets_given
from tgpu.cli.submit.option_fields import JobOptions, Submitter
from tgpu.cli.submit.submission import build_request, in_options
from tgpu.client.errors import ClientError, Lost, NoService
from tgpu.client.follow import follow_job, wait_until_over, wait_until_started
from tgpu.client.http import Client
from tgpu.text.instants import in_local_time
from tgpu.wire.v1 import JobModel, SubmitAnswer, SubmitRequest


@dataclass(frozen=True, slots=True)
class Answering:
    """Whom to ask, and how to report."""

    api_url: str | None
    wait: bool
    quiet: bool
    as_json: bool
    when: bool = False  # nothing is submitted: when would it start?


NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


def send(options: JobOptions, how: Answering, given: Mapping[str, object] = NOTHING) -> int:
    """The exit code of the command. `given` are fields of the API that a file has."""
    # Bad input is refused before a service is started for it.
    build(options, lambda job_id: job_id, given)
    ensure_service(how.api_url)
    with connected(how.api_url) as client:
        request, left_out = build(options, lambda job_id: real_id(client, job_id), given)
        if left_out:
            note(f"note: not passed on, because they are not UTF-8: {', '.join(left_out)}")
        if how.when:
            _tell_when(client, request, how)
            return ExitCode.OK
        with own_config.naming(_own_tenant(options, given)):
            answer = submit(client, request)
        for warning in answer.warnings:
            note(f"note: {in_local_time(warning)}")
        if request.job_id and "before" in answer.message:
            note(f"note: {in_local_time(answer.message)}")
        if how.wait:
            return _await(client, answer, request, how)
        _report(answer, request, how)
        return ExitCode.OK


def build(
    options: JobOptions,
    find_id: Callable[[str], str],
    given: Mapping[str, object] = NOTHING,
) -> tuple[SubmitRequest, list[str]]:
    """The request of this user, here and now; see `build_request`."""
    submitter = Submitter(
        environment.user_name(),
        environment.working_dir(options.get("cwd")),
        environment.variables(),
        environment.now_ms(),
        secrets_given.terminal(),
    )
    chosen = _own_tenant(options, given)
    if chosen is not None:
        options = {**options, "tenant": chosen.value}
    return build_request(options, submitter, find_id, given)


def _own_tenant(options: JobOptions, given: Mapping[str, object]) -> "own_config.Chosen | None":
    """What the variable or the user's file says, where the command and its file say nothing."""
    is_said = options.get("tenant") or "tenant_id" in given
    return None if is_said else own_config.chosen("tenant", None)


def real_id(client: Client, job_id: str) -> str:
    return client.get_job(job_id).job_id if job_id == "last" else job_id


def submit(client: Client, request: SubmitRequest) -> SubmitAnswer:
    """Send it; what is refused is named in the words of the command line."""
    try:
        return client.submit(request)
    except NoService:
        raise
    except Lost as error:
        # Never sent again by itself: without an id of its own, that could make two jobs.
        remedy = (
            "run the same command again: --id makes it the same job"
            if request.job_id
            else "it may have been queued: check with `tgpu list` before you submit it again"
        )
        raise Failure(
            error.message, remedy, exit_code=ExitCode.NO_SERVICE, code=error.code
        ) from error
    except ClientError as error:
        raise in_options(of_client_error(error)) from error


def _tell_when(client: Client, request: SubmitRequest, how: Answering) -> None:
    try:
        answer = client.estimate(request)
    except ClientError as error:
        raise in_options(of_client_error(error)) from error
    for warning in answer.warnings:
        note(f"note: {in_local_time(warning)}")
    if how.as_json:
        show_json(answer)
    else:
        show_lines(when_lines(answer))


def _report(answer: SubmitAnswer, request: SubmitRequest, how: Answering) -> None:
    if how.as_json:
        show_json(answer)
    elif how.quiet:
        say("\n".join(answer.job_ids or [answer.job_id]))
    else:
        head, hint = queued_lines(answer, request)
        say(head)
        note(hint)


def _await(client: Client, answer: SubmitAnswer, request: SubmitRequest, how: Answering) -> int:
    """Standard output is the job's own here; what we say goes to standard error."""
    if not how.quiet and not how.as_json:
        note(queued_lines(answer, request)[0])
    ids = answer.job_ids or [answer.job_id]
    try:
        if not request.command:
            return _await_lease(client, answer.job_id, how)
        return await_jobs(client, ids, how)
    except KeyboardInterrupt:
        note(f"job {answer.job_id} continues; cancel it with: tgpu cancel {answer.job_id}")
        return ExitCode.INTERRUPTED


def await_jobs(client: Client, ids: Sequence[str], how: Answering) -> int:
    """The first exit code that is not 0, once all of them are over."""
    jobs = [_until_over(client, job_id, len(ids) > 1, how) for job_id in ids]
    if how.as_json:
        show_json(jobs[0] if len(jobs) == 1 else jobs)
    codes = [exit_code_of_job(job.state, job.exit_code, job.signal) for job in jobs]
    return next((code for code in codes if code), ExitCode.OK)


def _until_over(client: Client, job_id: str, is_one_of_many: bool, how: Answering) -> JobModel:
    if is_one_of_many or how.as_json:
        job = wait_until_over(client, job_id)
    else:
        job = follow_job(client, job_id, write_bytes, on_waiting=_Waiting(how.quiet))
    if not how.quiet and not how.as_json:
        note(ended_line(job))
    return job


def _await_lease(client: Client, job_id: str, how: Answering) -> int:
    job = wait_until_started(client, job_id, on_waiting=_Waiting(how.quiet or how.as_json))
    if how.as_json:
        show_json(job)
    elif how.quiet:
        say(_for_scripts(job))
    else:
        say(f"job {job.job_id} holds GPU {gpus_held(job)}")
        note(f"give them back with: tgpu complete {job.job_id}")
    return ExitCode.OK if job.state == "running" else ExitCode.FAILURE


def _for_scripts(job: JobModel) -> str:
    """What CUDA_VISIBLE_DEVICES takes; with several nodes the names, which no program mistakes."""
    if {name.rpartition("/")[0] for name in job.gpu_names} <= {job.node}:
        return ",".join(str(index) for index in job.gpus)
    return ",".join(job.gpu_names)


class _Waiting:
    """Says why a job waits, each reason once."""

    def __init__(self, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._said = ""

    def __call__(self, job: JobModel) -> None:
        # The first look may come before the first cycle, which has no reason yet.
        if self._is_quiet or job.reason is None or job.reason.code in ("next_cycle", self._said):
            return
        self._said = job.reason.code
        note(waiting_line(job))
