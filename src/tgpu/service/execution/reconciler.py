"""Compares the attempts that should run with those that the engine reports. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from tgpu.core.model.lifecycle import JobState
from tgpu.core.state.cluster_state import Entry
from tgpu.engines.api import AttemptKey, Observation, Phase
from tgpu.service.attempt_key import current_key


class Belief(Enum):
    """What our books say of an attempt."""

    DECIDED = auto()  # recorded; whether the engine has it is not known
    RUNNING = auto()
    STOPPING = auto()  # its end was asked for


@dataclass(slots=True)
class AttemptBuckets:
    """Every attempt of either side, in exactly one of these."""

    as_believed: list[AttemptKey] = field(default_factory=list)
    to_launch: list[AttemptKey] = field(default_factory=list)
    to_stop: list[AttemptKey] = field(default_factory=list)
    changed: list[Observation] = field(default_factory=list)
    lost: list[AttemptKey] = field(default_factory=list)
    missing: list[AttemptKey] = field(default_factory=list)  # not known, which proves nothing yet
    orphans: list[AttemptKey] = field(default_factory=list)  # not over, and nobody wants it
    leftovers: list[AttemptKey] = field(default_factory=list)  # over, and on record already


def beliefs(placed: Iterable[Entry]) -> dict[AttemptKey, Belief]:
    """What the state says should be with the engine: leases never are."""
    found = {}
    for entry in placed:
        if entry.job.options.lease:
            continue
        key = current_key(entry)
        if entry.progress.stopping:
            found[key] = Belief.STOPPING
        elif entry.progress.state is JobState.RUNNING:
            found[key] = Belief.RUNNING
        else:
            found[key] = Belief.DECIDED
    return found


def classify(
    believed: Mapping[AttemptKey, Belief],
    observed: Mapping[AttemptKey, Observation],
    *,
    forgets: bool = False,
) -> AttemptBuckets:
    """`forgets`: the engine drops attempts by itself, so that absence is not an end."""
    buckets = AttemptBuckets()
    for key, belief in believed.items():
        seen = observed.get(key)
        if seen is None:
            _unknown_to_the_engine(buckets, key, belief, forgets)
        elif seen.is_over or (seen.phase is Phase.RUNNING and belief is Belief.DECIDED):
            buckets.changed.append(seen)
        elif belief is Belief.STOPPING:
            buckets.to_stop.append(key)
        else:
            buckets.as_believed.append(key)
    for key, seen in observed.items():
        if key not in believed:
            (buckets.leftovers if seen.is_over else buckets.orphans).append(key)
    return buckets


def _unknown_to_the_engine(
    buckets: AttemptBuckets, key: AttemptKey, belief: Belief, forgets: bool
) -> None:
    match belief:
        case Belief.DECIDED:
            # Also where it ran and was forgotten: then it is not started again, and its end told.
            buckets.to_launch.append(key)
        case Belief.STOPPING:
            # Not lost: the engine may have it and not have started it yet. Told to stop it, it
            # either ends it or never starts it, and says which.
            buckets.to_stop.append(key)
        case Belief.RUNNING:
            (buckets.missing if forgets else buckets.lost).append(key)
