"""Whose the processes on GPUs are."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from tgpu.core.capacity.ledger import NodeUse
from tgpu.core.model.ids import JobId, NodeId
from tgpu.core.state.cluster_state import Entry, State
from tgpu.engines.api import AttemptKey
from tgpu.engines.node_processes import Who
from tgpu.service.attempt_key import current_key


class Belongs(Enum):
    """Whose a process on a GPU is."""

    OURS = auto()  # of a job that has this GPU
    SURVIVOR = auto()  # of an attempt of ours that is over
    FOREIGN = auto()
    UNSEEN = auto()  # in another container: nobody can say


@dataclass(frozen=True, slots=True)
class Claimed:
    belongs: Belongs
    key: AttemptKey | None = None


@dataclass(slots=True)
class Ownership:
    """Tells whose a process is, and remembers: one that outlives its job loses its ancestors."""

    # The folder of an attempt's logs. A process that carries the number of one of our jobs and
    # another folder belongs to another service on this machine.
    log_dir: Callable[[AttemptKey], str | None] = lambda key: None
    # Attempts that run and that this database does not know: nobody of ours ends them.
    strangers: Callable[[], Collection[AttemptKey]] = lambda: ()
    _seen: dict[tuple[int, int], AttemptKey] = field(default_factory=dict)
    _jobs: dict[int, tuple[AttemptKey, bool]] = field(default_factory=dict)  # by pid; if a lease

    def begin(self, state: State, node_id: NodeId, whos: Mapping[int, Who]) -> None:
        """Before the processes of a reading of this node are claimed."""
        there = {(who.pid, who.started_at) for who in whos.values()}
        self._seen = {name: key for name, key in self._seen.items() if name in there}
        self._jobs = {
            entry.progress.pid: (current_key(entry), entry.job.options.lease)
            for entry in (state.placed() if whos else ())
            if entry.progress.pid is not None and _is_on(entry, node_id)
        }

    def claim(self, state: State, use: NodeUse, gpu_index: int, who: Who) -> Claimed:
        """Whose a process on this GPU is."""
        key = self._attempt_of(who)
        if key is not None and key in self.strangers():
            return Claimed(Belongs.FOREIGN)
        if key is not None:
            return self._of_attempt(state, use, gpu_index, key)
        lease = self._lease_of(state, use, gpu_index, who)
        if lease is not None:
            return Claimed(Belongs.OURS, lease)
        return Claimed(Belongs.FOREIGN if who.is_seen else Belongs.UNSEEN)

    @staticmethod
    def _of_attempt(state: State, use: NodeUse, gpu_index: int, key: AttemptKey) -> Claimed:
        entry = state.entry(JobId(key.job_id))
        placement = entry.progress.placement if entry is not None else None
        if entry is None or placement is None or current_key(entry) != key:
            return Claimed(Belongs.SURVIVOR, key)
        ours = (use.node.node_id, gpu_index) in placement.gpus()
        return Claimed(Belongs.OURS if ours else Belongs.FOREIGN, key)

    def _attempt_of(self, who: Who) -> AttemptKey | None:
        if who.started_at is None:
            return None
        name = (who.pid, who.started_at)
        if (known := self._seen.get(name)) is not None:
            return known
        key, is_lease = self._below_a_job(who)
        if key is None and who.mark is not None:
            folder = self.log_dir(who.mark.key)
            # The workers of a gang have folders of their own in it.
            if folder and f"{who.mark.log_dir}/".startswith(f"{folder}/"):
                key = who.mark.key
        if key is not None and not is_lease:  # what a lease's holder runs is theirs to end
            self._seen[name] = key
        return key

    def _below_a_job(self, who: Who) -> tuple[AttemptKey | None, bool]:
        lineage = (who.pid, *who.ancestors)
        return next((self._jobs[pid] for pid in lineage if pid in self._jobs), (None, False))

    @staticmethod
    def _lease_of(state: State, use: NodeUse, gpu_index: int, who: Who) -> AttemptKey | None:
        """A lease's holder starts programs by hand: what this user runs there belongs to it."""
        for job_id in sorted(use.holdings):
            holding = use.holdings[job_id]
            options = holding.job.options
            if not options.lease or options.user not in ("", who.user):
                continue
            if (use.node.node_id, gpu_index) in holding.placement.gpus():
                entry = state.entry(job_id)
                if entry is not None and entry.progress.pid is None:
                    return current_key(entry)
        return None


def _is_on(entry: Entry, node_id: NodeId) -> bool:
    """Whether its process is there: numbers of other nodes mean others."""
    placement = entry.progress.placement
    return placement is not None and placement.node_id == node_id
