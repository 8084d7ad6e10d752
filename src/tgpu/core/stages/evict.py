"""Which jobs are preempted for a job that cannot start, within the search budget of a cycle."""

from typing import Final

from tgpu.core.model.ids import JobId, TenantId
from tgpu.core.model.job import Job, JobClass
from tgpu.core.model.rules import PreemptionRules
from tgpu.core.policies.slots import ChoicePolicy, Ranking
from tgpu.core.preemption.preempt import Candidates, Eviction, Search, borrowers
from tgpu.core.preemption.preempt_by_rank import RankedJobs
from tgpu.core.stages.draft import Draft
from tgpu.core.state.waiting_queue import ClassQueue

# Searches for victims are expensive, and jobs that are not among the first wait their turn; on a
# small cluster they are cheap, and every job has one: so many jobs may be looked at in all.
_MOST_SEARCHES: Final = 32
_MOST_ASKED: Final = 4_096


class Evictions:
    """The searches of one cycle. Make it before anybody starts: who borrows only by a start of
    this cycle is not asked for it in the same breath."""

    # Most cycles never touch these.
    ranking: Ranking | None = None  # running jobs are preempted by rank
    _candidates: Candidates | None = None
    _ranked_jobs: RankedJobs | None = None
    _borrowers: frozenset[TenantId] = frozenset()
    _searches = 0

    def __init__(self, draft: Draft) -> None:
        self._draft = draft
        self._rules = draft.rules.preemption
        if self._rules is not None:
            self._borrowers = borrowers(draft.ledger)
        # What was looked for in vain: in a cycle there is only less of it. A search that failed
        # fails at any lower priority too.
        self._no_victims: dict[tuple[object, ...], int] = {}

    def make_room(self, queue: ClassQueue, job_id: JobId) -> bool:
        """Whether others are preempted for the head of this class."""
        if self._rules is None:
            return False
        if self._by_importance(queue, job_id, self._rules):
            return True
        return self.ranking is not None and self._by_rank(queue, job_id, self._rules, self.ranking)

    def make_room_by_choice(self, job: Job, job_class: JobClass, policy: ChoicePolicy) -> None:
        if self._rules is None:
            return
        search = self._search(job_class, self._rules)
        if search is not None:
            self._evict(job, search.find_by_choice(job, policy.victim))

    def _by_importance(self, queue: ClassQueue, job_id: JobId, rules: PreemptionRules) -> bool:
        alike, job_class = _alike(queue), queue.job_class
        failed_at = self._no_victims.get(alike)
        if failed_at is not None and job_class.priority <= failed_at:
            return False
        if not self._could_push_out(job_class, rules):
            return False
        search = self._search(job_class, rules)
        if search is None:
            return False
        eviction = search.find(job_id)
        if eviction is None:
            self._no_victims[alike] = job_class.priority
        return self._evict(self._draft.entry(job_id).job, eviction)

    def _by_rank(
        self, queue: ClassQueue, job_id: JobId, rules: PreemptionRules, ranking: Ranking
    ) -> bool:
        draft = self._draft
        if self._ranked_jobs is None:
            self._ranked_jobs = RankedJobs(draft.state, ranking, rules, draft.now)
            self._ranked_jobs.leave_out(p.victim for p in draft.preemptions)
        entry = draft.entry(job_id)
        eviction = self._ranked_jobs.find(entry, _alike(queue), draft.trial, draft.holds)
        return self._evict(entry.job, eviction)

    def _evict(self, job: Job, eviction: Eviction | None) -> bool:
        if eviction is None:
            return False
        # Each search must know the victims of the other, or one would be preempted for two.
        victims = [preemption.victim for preemption in eviction.victims]
        if self._candidates is not None:
            self._candidates.leave_out(victims)
        if self._ranked_jobs is not None:
            self._ranked_jobs.leave_out(victims)
        self._draft.evict(job, eviction)
        return True

    def _could_push_out(self, job_class: JobClass, rules: PreemptionRules) -> bool:
        """Whether somebody is less important, or runs on borrowed quota: cheap to say."""
        lowest = self._draft.state.lowest_placed_priority()
        is_least = lowest is None or lowest > job_class.priority - rules.margin
        return bool(self._borrowers) or not is_least

    def _search(self, job_class: JobClass, rules: PreemptionRules) -> Search | None:
        """None where nobody may be asked, or it would be too much for one cycle."""
        draft = self._draft
        if self._candidates is None:
            self._candidates = Candidates(draft.state, rules, draft.now, self._borrowers)
            self._candidates.leave_out(p.victim for p in draft.preemptions)
        if not self._candidates.all:
            return None
        if self._searches >= max(_MOST_SEARCHES, _MOST_ASKED // len(self._candidates.all)):
            return None
        self._searches += 1
        return Search(draft.trial, draft.holds, self._candidates, job_class, rules)


def _alike(queue: ClassQueue) -> tuple[object, ...]:
    """All that a search for victims depends on, but for the priority."""
    one = queue.job_class
    return (queue.shape, one.tenant_id, one.queue, one.time_limit_ms, one.booking, one.array_id)
