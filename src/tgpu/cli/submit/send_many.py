"""Submits the jobs of files: all are checked before the first is queued."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tgpu.cli.amounts import split_ids
from tgpu.cli.connect import connected, ensure_service
from tgpu.cli.exit_codes import ExitCode
from tgpu.cli.failures import Failure, bad_input
from tgpu.cli.output import note, say, show_json
from tgpu.cli.render.jobs import queued_lines
from tgpu.cli.submit.option_fields import JobOptions
from tgpu.cli.submit.send import Answering, await_jobs, build, real_id, send, submit
from tgpu.client.http import Client
from tgpu.text.instants import in_local_time
from tgpu.wire.v1 import SubmitAnswer


@dataclass(frozen=True, slots=True)
class Sending:
    """One job; `placed` says where in its file a mistake stands."""

    options: JobOptions
    given: Mapping[str, object]
    placed: Callable[[Failure], Failure]

    @property
    def name(self) -> str:
        return self.options.get("name") or ""

    @property
    def waits_for(self) -> list[str]:
        """Ids, or names of jobs above it."""
        after = (self.options.get(name) or () for name in ("after", "after_any"))
        return [job for words in after for job in split_ids(words)]


def send_many(jobs: Sequence[Sending], how: Answering) -> int:
    """The exit code of `tgpu submit`."""
    _check(jobs)
    if len(jobs) == 1:
        try:
            return send(jobs[0].options, how, jobs[0].given)
        except Failure as failure:
            raise jobs[0].placed(failure) from failure
    if how.when:
        raise bad_input("--when works for one job, and there are several")
    ensure_service(how.api_url)
    with connected(how.api_url) as client:
        answers = _queue(client, jobs, how)
        if how.as_json and not how.wait:
            show_json({"jobs": answers})
        if not how.wait:
            return ExitCode.OK
        ids = [job_id for answer in answers for job_id in answer.job_ids or [answer.job_id]]
        try:
            return await_jobs(client, ids, how)
        except KeyboardInterrupt:
            note("the jobs continue; cancel them with: tgpu cancel " + " ".join(ids[:20]))
            return ExitCode.INTERRUPTED


def _check(jobs: Sequence[Sending]) -> None:
    """Bad values, and names of jobs further down, before anything is queued."""
    below = {job.name for job in jobs if job.name}
    for job in jobs:
        try:
            build(job.options, lambda job_id: job_id, job.given)
            for name in job.waits_for:
                if name in below:
                    _refuse_order(jobs, job, name)
        except Failure as failure:
            raise job.placed(failure) from failure


def _refuse_order(jobs: Sequence[Sending], job: Sending, name: str) -> None:
    before = [each.name for each in jobs[: jobs.index(job)]]
    if name not in before:
        raise bad_input(
            f"--after: {name!r} comes later in the file", "put it above the jobs that depend on it"
        )
    if before.count(name) > 1:
        raise bad_input(f"--after: {name!r} is the name of several", "give each one its own")


def _queue(client: Client, jobs: Sequence[Sending], how: Answering) -> list[SubmitAnswer]:
    """In order: a job may wait for one above it, by its name."""
    ids: dict[str, str] = {}
    answers: list[SubmitAnswer] = []
    for job in jobs:
        try:
            request, left_out = build(
                job.options, lambda name: ids.get(name) or real_id(client, name), job.given
            )
            answer = submit(client, request)
        except Failure as failure:
            failure.remedy = "; ".join(
                [*([failure.remedy] if failure.remedy else []), _before(answers)]
            )
            raise job.placed(failure) from failure
        if left_out and not answers:
            note(f"note: not passed on, because they are not UTF-8: {', '.join(left_out)}")
        for warning in answer.warnings:
            note(f"note: {in_local_time(warning)}")
        if job.name:
            ids[job.name] = answer.job_id
        answers.append(answer)
        if how.quiet:
            say("\n".join(answer.job_ids or [answer.job_id]))
        elif not how.as_json:
            say(queued_lines(answer, request)[0])
    return answers


def _before(answers: Sequence[SubmitAnswer]) -> str:
    if not answers:
        return "nothing was queued"
    ids = " ".join(answer.job_id for answer in answers)
    return f"those before it are queued; cancel them with: tgpu cancel {ids}"
