"""The state of the scheduler with its indexes, changed only by `apply(event)`.

Jobs that are over are dropped: the store has them. What is here grows with what waits and runs.
"""

from bisect import bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, assert_never

from sortedcontainers import SortedList

from tgpu.core.accounting.attained import AttainedService, attained_service, level_of
from tgpu.core.accounting.budget import Budgets
from tgpu.core.accounting.meter import Meter, Meters, Owner
from tgpu.core.accounting.user_days import UserDays
from tgpu.core.capacity.ledger import Ledger, QueueName, QueueUse
from tgpu.core.errors import InvariantBroken
from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    ClockStepped,
    Event,
    JobChanged,
    JobMoved,
    JobsSubmitted,
    MixSet,
    NodeSet,
    QueueRemoved,
    QueueSet,
    SettingsSet,
    TenantSet,
    TimePassed,
    UsageAdded,
)
from tgpu.core.model.ids import JobId
from tgpu.core.model.job import DependencyKind, Job, class_of
from tgpu.core.model.lifecycle import (
    PENDING,
    PENDING_HELD,
    PLACED,
    TERMINAL,
    JobState,
    Progress,
)
from tgpu.core.model.tenant import TenantQueue
from tgpu.core.model.usage import NO_USAGE, GpuTimeUsage
from tgpu.core.state.clock_step import aged
from tgpu.core.state.waiting_queue import ClassQueue, WaitingQueue

# Names at hand: those of an enum are looked up each time, and this is the path of every job.
_PENDING: Final = JobState.PENDING

Setting = (
    JobChanged
    | TenantSet
    | QueueSet
    | QueueRemoved
    | UsageAdded
    | NodeSet
    | BookingSet
    | BookingRemoved
    | SettingsSet
    | MixSet
    | ClockStepped
)


@dataclass(slots=True)
class Entry:
    """A job that is not over."""

    job: Job
    queue: ClassQueue
    progress: Progress
    unmet: int = 0  # dependencies that are not over yet
    # As it was worked out last: asked in every cycle, it seldom changes.
    _attained: AttainedService | None = None

    def attained(self, now: int) -> AttainedService:
        """How much GPU time the job has had by now, and where it is."""
        known = self._attained
        if known is None or known.of is not self.progress or not known.since <= now < known.until:
            known = self._attained = attained_service(
                self.job.request.gpu_millis, self.progress, now
            )
        return known


class State:
    def __init__(self) -> None:
        self.now = 0
        self.ledger = Ledger()
        self.waiting = WaitingQueue()
        self.counts: Counter[JobState] = Counter()
        self.usage: dict[QueueName, GpuTimeUsage] = {}  # of all time, by tenant and queue
        self.budgets = Budgets()
        self.user_days = UserDays()
        self.meters = Meters()  # GPU time of late, by tenant and user
        self.measures = True  # off where nobody asks what was used: in simulations
        self._entries: dict[JobId, Entry] = {}
        self._placed: dict[JobId, Entry] = {}
        self._placed_by_priority: Counter[int] = Counter()
        # What placed jobs have, and the sum of its squares: how large the usual GPU's job is.
        self.held_millis = 0
        self.held_squares = 0
        self._sleeping: SortedList[tuple[int, JobId]] = SortedList()
        self._leases: list[tuple[int, JobId]] = []  # in order; there are few
        self._dependents: dict[JobId, list[JobId]] = {}
        self._unsatisfiable: dict[JobId, str] = {}
        self._nominated: dict[JobId, Entry] = {}

    # -- the read side ---------------------------------------------------------------------

    def entry(self, job_id: JobId) -> Entry | None:
        return self._entries.get(job_id)

    def entries(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def placed(self) -> list[Entry]:
        """Jobs that have GPUs, by start, then id."""
        return sorted(
            self._placed.values(), key=lambda e: (e.progress.started_at or 0, e.job.job_id)
        )

    def placed_in_no_order(self) -> Iterable[Entry]:
        """The same, for those who bring them into an order of their own."""
        return self._placed.values()

    def lowest_placed_priority(self) -> int | None:
        """None where nobody has GPUs."""
        return min(self._placed_by_priority, default=None)

    def is_placed(self, job_id: JobId) -> bool:
        return job_id in self._placed

    def nominated(self) -> list[Entry]:
        """Waiting jobs that others are preempted for, oldest first."""
        if not self._nominated:
            return []
        return sorted(
            (e for e in self._nominated.values() if not self._is_kept_back(e)),
            key=lambda e: (e.job.submitted_at, e.job.job_id),
        )

    def leaving(self) -> list[Entry]:
        """Those who are being preempted and still have GPUs, in no order."""
        return [e for e in self._placed.values() if e.progress.gives_way_to is not None]

    def expired_leases(self, now: int) -> list[JobId]:
        if not self._leases:
            return []
        return [job_id for _, job_id in self._leases[: bisect_right(self._leases, (now, _LAST_ID))]]

    def unsatisfiable(self) -> list[tuple[JobId, str]]:
        """Jobs whose dependencies can never be met, with the cause, by id."""
        return sorted(self._unsatisfiable.items()) if self._unsatisfiable else []

    def unsatisfiable_cause(self, job_id: JobId) -> str | None:
        """Why this job can never start; None where it still can."""
        return self._unsatisfiable.get(job_id)

    def sleeping(self) -> Iterator[tuple[int, JobId]]:
        """Jobs whose back-off has not ended, with its end."""
        return iter(self._sleeping)

    def wakes_at(self) -> int | None:
        """The next instant at which time alone changes something: a back-off or a lease ends, or
        something about a booking is due.
        """
        firsts = [keys[0][0] for keys in (self._sleeping, self._leases) if keys]
        for limits in (self.budgets, self.user_days):
            if (changes_at := limits.next_change_at(self.now)) is not None:
                firsts.append(changes_at)
        for booking in self.ledger.bookings.values():
            if (at := booking.next_at(self.now)) is not None:
                firsts.append(at)
        return min(firsts, default=None)

    def is_quiet(self) -> bool:
        """Whether there is nothing that a cycle could decide about."""
        return not (
            self.waiting.size
            or self._leases
            or self._unsatisfiable
            or self._nominated
            or self.ledger.bookings
        )

    def live_count(self) -> int:
        return len(self._entries)

    def pending_count(self) -> int:
        return len(self._entries) - len(self._placed)

    # -- the one way to change it ------------------------------------------------------------

    def apply(self, event: Event) -> None:
        # What comes with every job first.
        if isinstance(event, JobMoved):
            self._move(event)
        elif isinstance(event, TimePassed):
            self._wake(event.at)
        elif isinstance(event, JobsSubmitted):
            self._take_in(event.jobs, event.held)
        else:
            self._set(event)

    def _set(self, event: Setting) -> None:
        match event:
            case JobChanged():
                self._change(event.job)
            case TenantSet():
                self.ledger.set_tenant(event.tenant)
                self.budgets.set_tenant(event.tenant)
                holds = self.ledger.tenant(event.tenant.tenant_id).gpu_millis_by_user
                self.user_days.set_tenant(event.tenant, holds, max(self.now, event.at))
                self._look_at_budgets()
            case QueueSet():
                self._set_queue(event.queue)
            case QueueRemoved():
                self.ledger.queues.pop((event.tenant_id, event.name), None)
            case UsageAdded():
                key = (event.tenant_id, event.queue)
                self.usage[key] = self.usage.get(key, NO_USAGE) + event.usage
            case NodeSet():
                self.ledger.set_node(event.node)
            case BookingSet():
                self.ledger.bookings[event.booking.booking_id] = event.booking
            case BookingRemoved():
                self._remove_booking(event.booking_id)
            case MixSet():
                self.ledger.request_profile = event.mix
            case ClockStepped():
                self._step_clock(event)
            case SettingsSet():  # for those who look back
                self._wake(event.at)
            case _:
                assert_never(event)

    def restore(self, job: Job, progress: Progress, unmet: str | None = None) -> None:
        """Take in a job that is not over: a new one, or one from the store at start.

        Dependencies must be in the state already, or over. The state forgets what is over, so it
        cannot tell how such a one ended: where an `ok` was not met, the caller passes the cause
        that `unmet_cause` writes, and the next cycle gives the job up.
        """
        if job.job_id in self._entries:
            raise InvariantBroken(f"job {job.job_id} is in the state twice")
        if progress.state in TERMINAL:
            raise InvariantBroken(
                f"job {job.job_id} is {progress.state}, and over jobs are dropped"
            )
        if job.tenant_id not in self.ledger.tenants:
            raise InvariantBroken(f"job {job.job_id} names unknown tenant {job.tenant_id}")
        level = level_of(job.request.gpu_millis, progress.ran_ms) if progress.ran_ms else 0
        entry = Entry(job, self.waiting.queue_of(job, level), progress)
        self._entries[job.job_id] = entry
        self.counts[progress.state] += 1
        self._depend(entry, job)
        if unmet is not None:
            self._unsatisfiable[job.job_id] = unmet
        self._enter(entry)
        if progress.state in PLACED:
            millis, since = job.request.gpu_millis, progress.started_at or 0
            self.budgets.resume(job.tenant_id, millis, since)
            self.user_days.resume(job.tenant_id, job.options.user, millis, since)

    def set_aside(self, entry: Entry) -> None:
        """Take a job out of the indexes, until `put_back`: see `what_if`."""
        self._leave(entry)

    def put_back(self, entry: Entry) -> None:
        self._enter(entry)

    def withdraw(self, job_id: JobId) -> None:
        """The exact inverse of `restore`, for a job that waits and that nobody waits for."""
        entry = self._entries.pop(job_id)
        self._leave(entry)
        self.counts[entry.progress.state] -= 1
        self.waiting.leave(entry.queue)
        self._unsatisfiable.pop(job_id, None)

    def restore_meters(self, averages: Mapping[Owner, tuple[int, int]], now: int) -> None:
        """Take in what was measured, with the instant it was true, after the jobs were restored.

        Who has GPUs and was never measured is measured from now on.
        """
        by_owner = self.meters.by_owner
        for owner, (average, at) in averages.items():
            by_owner[owner] = Meter(average, 0, at)
        for tenant_id, use in self.ledger.tenants.items():
            held: dict[Owner, int] = {(tenant_id, None): use.gpu_millis}
            held |= {(tenant_id, user): millis for user, millis in use.gpu_millis_by_user.items()}
            for owner, rate in held.items():
                known = by_owner.get(owner)
                if known is not None:
                    by_owner[owner] = Meter(known.average, rate, known.at)
                elif rate:
                    by_owner[owner] = Meter(0, rate, now)

    # -- how ------------------------------------------------------------------------------------

    def _take_in(self, jobs: Sequence[Job], held: frozenset[JobId]) -> None:
        """New jobs. Bulk loads bring thousands that are alike: those are filed class by class."""
        if len(jobs) == 1:
            job = jobs[0]
            self.restore(job, PENDING_HELD if job.job_id in held else PENDING)
            return
        alike: dict[tuple[object, ...], list[Job]] = {}
        special = []
        for job in jobs:
            if job.after or job.array is not None or job.job_id in held:
                special.append(job)
                continue
            # By identity: equal requests that are two objects only make two groups of one class.
            key = (job.tenant_id, job.queue, job.priority, id(job.request), id(job.options))
            group = alike.get(key)
            if group is None:
                group = alike[key] = []
            group.append(job)
        for group in alike.values():
            self._file(group)
        for job in special:  # last, for they may wait for others of the same submission
            self.restore(job, PENDING_HELD if job.job_id in held else PENDING)

    def _file(self, group: list[Job]) -> None:
        if len(group) == 1:
            self.restore(group[0], PENDING)
            return
        first = group[0]
        if first.tenant_id not in self.ledger.tenants:
            raise InvariantBroken(f"job {first.job_id} names unknown tenant {first.tenant_id}")
        queue = self.waiting.join(class_of(first), len(group))
        entries = self._entries
        for job in group:
            if job.job_id in entries:
                raise InvariantBroken(f"job {job.job_id} is in the state twice")
            entries[job.job_id] = Entry(job, queue, PENDING)
        self.waiting.add_all(queue, [(job.submitted_at, job.job_id) for job in group])
        self.counts[JobState.PENDING] += len(group)

    def _move(self, event: JobMoved) -> None:
        entry = self._entries.get(event.job_id)
        if entry is None:
            raise InvariantBroken(f"an event moves unknown job {event.job_id}")
        if self.measures:
            self._measure(entry, event)
        self._leave(entry)
        before, after = entry.progress, event.progress
        self.counts[before.state] -= 1
        self.counts[after.state] += 1
        if after.ran_ms != before.ran_ms:
            self._file_again(entry, after)
        entry.progress = after
        if after.state in TERMINAL:
            self._drop(entry)
        else:
            self._enter(entry)

    def _change(self, job: Job) -> None:
        """A job that waits, as its owner wants it now: mostly of another class."""
        entry = self._entries.get(job.job_id)
        if entry is None:
            raise InvariantBroken(f"an event changes unknown job {job.job_id}")
        self._leave(entry)
        self.waiting.leave(entry.queue)
        if job.after != entry.job.after:
            self._wait_for_others(entry, job)
        if job.options.booking != entry.job.options.booking:
            self._unsatisfiable.pop(job.job_id, None)
        ran_ms = entry.progress.ran_ms
        level = level_of(job.request.gpu_millis, ran_ms) if ran_ms else 0
        entry.job, entry.queue = job, self.waiting.queue_of(job, level)
        self._enter(entry)

    def _wait_for_others(self, entry: Entry, job: Job) -> None:
        """Its dependencies are others now; what only one that no longer counts kept from
        it may start."""
        for dependency in entry.job.after:
            dependents = self._dependents.get(dependency.job_id)
            if dependents is not None and job.job_id in dependents:
                dependents.remove(job.job_id)
                if not dependents:
                    del self._dependents[dependency.job_id]
        entry.unmet = 0
        self._unsatisfiable.pop(job.job_id, None)
        self._depend(entry, job)

    def _depend(self, entry: Entry, job: Job) -> None:
        for dependency in job.after:
            if dependency.job_id in self._entries:
                entry.unmet += 1
                self._dependents.setdefault(dependency.job_id, []).append(job.job_id)

    def _file_again(self, entry: Entry, progress: Progress) -> None:
        """It had more GPU time meanwhile: orders that mind that see another class."""
        level = level_of(entry.job.request.gpu_millis, progress.ran_ms)
        if level != entry.queue.job_class.level:
            before = entry.queue
            entry.queue = self.waiting.queue_of(entry.job, level)
            self.waiting.leave(before)

    def _measure(self, entry: Entry, event: JobMoved) -> None:
        job = entry.job
        by = held_change(job, entry.progress, event.progress)
        if by:
            self.meters.change(job.tenant_id, job.options.user, by, event.at)
            self.budgets.count(job.tenant_id, by, event.at)
            self.user_days.count(job.tenant_id, job.options.user, by, event.at)

    def _enter(self, entry: Entry) -> None:
        """Put a job into the index where its progress belongs; `_leave` is the exact inverse."""
        job, progress = entry.job, entry.progress
        if job.options.booking is not None and progress.state is _PENDING:
            self._refuse_without_booking(job)
        if progress.state in PLACED:
            if progress.placement is None:
                raise InvariantBroken(f"job {job.job_id} is {progress.state} nowhere")
            self._placed[job.job_id] = entry
            self._placed_by_priority[job.priority] += 1
            millis = job.request.gpu_millis
            self.held_millis += millis
            self.held_squares += millis * millis
            deadline = None if job.options.time_limit_ms is None else latest_end(entry)
            self.ledger.take(job, progress.placement, deadline)
            if deadline is not None and job.options.lease:
                insort(self._leases, (deadline, job.job_id))
        elif self._is_kept_back(entry):
            pass
        elif progress.eligible_at > self.now:
            self._sleeping.add((progress.eligible_at, job.job_id))
        else:
            self.waiting.add(entry.queue, job.submitted_at, job.job_id)
        if progress.claim is not None:
            self._nominated[job.job_id] = entry

    def _leave(self, entry: Entry) -> None:
        job, progress = entry.job, entry.progress
        if progress.state in PLACED:
            if progress.placement is None:
                raise InvariantBroken(f"job {job.job_id} is {progress.state} nowhere")
            del self._placed[job.job_id]
            millis = job.request.gpu_millis
            self.held_millis -= millis
            self.held_squares -= millis * millis
            others = self._placed_by_priority[job.priority] - 1
            if others:
                self._placed_by_priority[job.priority] = others
            else:
                del self._placed_by_priority[job.priority]
            self.ledger.give(job, progress.placement)
            if job.options.lease and (deadline := latest_end(entry)) is not None:
                self._leases.remove((deadline, job.job_id))
        elif self._is_kept_back(entry):
            pass
        elif progress.eligible_at > self.now:
            self._sleeping.remove((progress.eligible_at, job.job_id))
        else:
            self.waiting.discard(entry.queue, job.submitted_at, job.job_id)
        if progress.claim is not None:
            self._nominated.pop(job.job_id, None)

    def _is_kept_back(self, entry: Entry) -> bool:
        """Whether something other than time and room keeps a job without GPUs from starting."""
        progress = entry.progress
        return (
            progress.held
            or entry.unmet > 0
            or progress.state is not _PENDING  # preempted, and not yet requeued
            or (bool(self._unsatisfiable) and entry.job.job_id in self._unsatisfiable)
        )

    def _drop(self, entry: Entry) -> None:
        job_id = entry.job.job_id
        del self._entries[job_id]
        self.waiting.leave(entry.queue)
        if self._unsatisfiable:
            self._unsatisfiable.pop(job_id, None)
        if not self._dependents:
            return
        completed = entry.progress.state is JobState.COMPLETED
        for dependent_id in self._dependents.pop(job_id, ()):
            dependent = self._entries.get(dependent_id)
            if dependent is None:
                continue  # cancelled while it waited
            self._leave(dependent)
            dependent.unmet -= 1
            if not completed and _needs_ok(dependent.job, job_id):
                # The first cause stays: a reason that changes while nothing can be done confuses.
                self._unsatisfiable.setdefault(
                    dependent_id, unmet_cause(job_id, entry.progress.state)
                )
            self._enter(dependent)

    def _wake(self, now: int) -> None:
        """Time never goes back: a clock that was set back changes nothing until it caught up."""
        self.now = max(self.now, now)
        self._look_at_budgets()
        while self._sleeping and self._sleeping[0][0] <= self.now:
            _, job_id = self._sleeping.pop(0)
            entry = self._entries[job_id]
            self.waiting.add(entry.queue, entry.job.submitted_at, job_id)

    def _look_at_budgets(self) -> None:
        self.ledger.over_budget = self.budgets.refusals(self.now)
        self.ledger.over_day = self.user_days.refusals(self.now)

    def _step_clock(self, event: ClockStepped) -> None:
        """All indexes go by the old time until every job in them is out."""
        entries = [self._entries.get(job_id) for job_id, _ in event.moved]
        for (job_id, _), entry in zip(event.moved, entries, strict=True):
            if entry is None:
                raise InvariantBroken(f"a step of the clock moves unknown job {job_id}")
            self._leave(entry)
        before, by = event.at - event.by, event.by
        self.budgets.step(max(before, self.now), by)
        self.user_days.step(max(before, self.now), by)
        self.meters.step(by)
        self.waiting.step(by)
        for known in self._entries.values():
            known.job = aged(known.job, by)
        self.now += by
        for (_, progress), entry in zip(event.moved, entries, strict=True):
            assert entry is not None
            entry.progress = progress
            self._enter(entry)
        self._wake(event.at)

    def _refuse_without_booking(self, job: Job) -> None:
        booking = job.options.booking
        if booking is not None and booking not in self.ledger.bookings:
            self._unsatisfiable.setdefault(job.job_id, f"reservation {booking} it runs in is over")

    def _remove_booking(self, booking_id: str) -> None:
        """Its jobs that wait can no longer start; those that run go on."""
        waiting = []
        if any(q.job_class.booking == booking_id for q in self.waiting.all_classes()):
            waiting = [
                entry
                for entry in self._entries.values()
                if entry.job.options.booking == booking_id
                and entry.progress.state is JobState.PENDING
            ]
        for entry in waiting:
            self._leave(entry)
        self.ledger.bookings.pop(booking_id, None)
        for entry in waiting:
            self._enter(entry)

    def _set_queue(self, queue: TenantQueue) -> None:
        key = (queue.tenant_id, queue.name)
        use = self.ledger.queues.get(key)
        if use is None:
            running = sum(
                (entry.job.tenant_id, entry.job.queue) == key for entry in self._placed.values()
            )
            self.ledger.queues[key] = QueueUse(queue, running)
        else:
            use.queue = queue


def held_change(job: Job, before: Progress, after: Progress) -> int:
    """The thousandths of a GPU that a move gives its job, or with a minus takes from it."""
    return job.request.gpu_millis * ((after.state in PLACED) - (before.state in PLACED))


def unmet_cause(job_id: JobId, ended_as: JobState) -> str:
    """The sentence for a job whose `ok` dependency on `job_id` was not met."""
    return f"job {job_id} it depends on {ended_as}"


_LAST_ID = JobId("\U0010ffff")  # sorts behind every job id


def _needs_ok(job: Job, other: JobId) -> bool:
    return any(d.job_id == other and d.kind is DependencyKind.OK for d in job.after)


def earliest_start(state: "State", entry: Entry) -> int:
    """Before this a job cannot start, whatever ends: it tries again then, or its reservation
    begins."""
    booking = state.ledger.bookings.get(entry.job.options.booking or "")
    return max(entry.progress.eligible_at, 0 if booking is None else booking.starts_at)


def latest_end(entry: Entry) -> int | None:
    """When a placed job is over at the latest, by its time limit; None: nobody knows."""
    limit, started_at = entry.job.options.time_limit_ms, entry.progress.started_at
    return None if limit is None or started_at is None else started_at + limit
