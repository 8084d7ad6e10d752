"""Adds the name of the caller to the events of a change.

Done where the writer takes the change together with its audit row, and so for every command there
is or will be, over REST and gRPC alike. What the service does by itself has no trail and no name.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as replace_struct

from tgpu.core.model.events import (
    BookingRemoved,
    BookingSet,
    Event,
    JobChanged,
    JobMoved,
    NodeSet,
    QueueRemoved,
    QueueSet,
    TenantSet,
)
from tgpu.core.model.lifecycle import Move
from tgpu.core.model.node import Node
from tgpu.core.state.cluster_state import State
from tgpu.service.identity.caller import Role
from tgpu.service.recording.audit import Trail

# What a cancel says until it is known whose it is; the name takes the place of "its owner".
CANCELLED: Final = "cancelled by its owner"
PAUSED: Final = "paused by an operator"  # the same of a GPU, where no reason was given
_ENDS: Final = (Move.STOP, Move.CANCEL)
_RULES: Final = frozenset({Role.ADMIN, Role.OPERATOR})


def with_names(events: Sequence[Event], trail: Trail, state: State) -> Sequence[Event]:
    """The events of one command with the name of who gave it."""
    if not any(isinstance(event, _CHANGES) for event in events):
        return events  # submissions of thousands of jobs: their jobs say whose they are
    return [_named(event, trail, state) for event in events]


def doer(trail: Trail, owner: str = "") -> str:
    """ "ada", "ops (operator)", "ada's job 7"; the role is told where it is not their own job."""
    if not trail.name:
        return f"somebody at {trail.origin}" if trail.origin else "somebody"
    if trail.job_id:
        return f"{trail.name}'s job {trail.job_id}"
    if trail.role in _RULES and trail.name != owner:
        return f"{trail.name} ({trail.role})"
    return trail.name


def _named(event: Event, trail: Trail, state: State) -> Event:
    match event:
        case JobMoved():
            return _moved(event, trail, state)
        case JobChanged():
            return replace(event, by=doer(trail, event.job.options.user))
        case NodeSet():
            who = doer(trail)
            use = state.ledger.nodes.get(event.node.node_id)
            return replace(
                event, by=who, node=_paused_by(event.node, None if use is None else use.node, who)
            )
        case TenantSet() | QueueSet() | QueueRemoved() | BookingSet() | BookingRemoved():
            return replace(event, by=doer(trail))
        case _:
            return event


def _moved(event: JobMoved, trail: Trail, state: State) -> JobMoved:
    entry = state.entry(event.job_id)
    who = doer(trail, "" if entry is None else entry.job.options.user)
    progress = event.progress
    if event.move in _ENDS and progress.cause == CANCELLED:
        progress = replace_struct(progress, cause=f"cancelled by {who}")
    elif event.move in (Move.HOLD, Move.RELEASE):
        progress = replace_struct(progress, held_by=who if progress.held else "")
    elif event.move is Move.PAUSE:
        progress = replace_struct(progress, paused_by=who)
    return replace_struct(event, by=who, progress=progress)


def _paused_by(node: Node, before: Node | None, who: str) -> Node:
    """With the name in the reason of each GPU that this has paused."""
    reasons = {gpu.index: gpu.paused for gpu in before.gpus} if before is not None else {}
    return replace(
        node,
        gpus=tuple(
            gpu
            if gpu.paused is None or gpu.paused == reasons.get(gpu.index)
            else replace(gpu, paused=_pause_told(gpu.paused, who))
            for gpu in node.gpus
        ),
    )


def _pause_told(reason: str, who: str) -> str:
    return f"paused by {who}" if reason == PAUSED else f"{reason} (by {who})"


_CHANGES: Final = (
    JobMoved,
    JobChanged,
    TenantSet,
    QueueSet,
    QueueRemoved,
    NodeSet,
    BookingSet,
    BookingRemoved,
)
