"""The commands on reservations: reserve, cancel, list.

A booking is kept as a document beside its events, so that a start reads what stands and not all
that ever happened.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from tgpu.core.errors import (
    Conflict,
    InvalidRequest,
    QuotaExceeded,
    SchedulerError,
    Unavailable,
)
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.events import BookingRemoved, BookingSet
from tgpu.core.model.ids import NodeId, TenantId
from tgpu.core.model.units import SECOND
from tgpu.core.reservations import advance_reservations
from tgpu.core.reservations.advance_reservations import (
    AdvanceReservationRequest,
    Refusal,
    Unbookable,
)
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.tenants import NAME_RULE
from tgpu.service.reads.reservations import booking_of
from tgpu.service.recording.clock import Clock
from tgpu.service.recording.writer import Decision, Writer
from tgpu.store.api import Store
from tgpu.text.instants import utc_text
from tgpu.text.plurals import plural

KIND: Final = "booking"  # documents: a booking as it stands, by its id
_NUMBER: Final = "booking_number"  # documents: the last numbers given out
_BY_NO_TENANT: Final = "last"
_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_HOUR: Final = 3600 * SECOND
_DAY: Final = 24 * _HOUR
# Clocks differ, and a request takes its time: who means now must not be told that it has passed.
_SLACK_MS: Final = 60 * SECOND


@dataclass(frozen=True, slots=True)
class BookingLimits:
    """What the operator allows."""

    unused_ms: int | None = 15 * 60 * SECOND  # where the caller does not say; None: kept
    longest_ms: int = 7 * _DAY
    ahead_ms: int = 30 * _DAY


DEFAULT_LIMITS: Final = BookingLimits()


@dataclass(frozen=True, slots=True)
class ReservationWish:
    """What a caller wants. `starts_at` None: now."""

    tenant_id: TenantId
    gpus: int
    length_ms: int
    starts_at: int | None = None
    booking_id: str | None = None
    gpu_type: str | None = None
    node_id: NodeId | None = None
    user: str = ""
    unused_ms: int | None = None
    keep: bool = False  # until it ends, also unused
    # Whether its id is its tenant's own: `tenant:name`, so that nobody learns which names others
    # have by trying to use them.
    of_tenant: bool = False


class BookingCommands:
    def __init__(self, state: State, writer: Writer, clock: Clock, limits: BookingLimits) -> None:
        self._state = state
        self._writer = writer
        self._clock = clock
        self._limits = limits
        self._last_numbers: dict[str, int] = {}  # given out, by tenant; "last": by no tenant

    async def open(self, store: Store) -> None:
        """Load what is booked. Before the jobs, which name bookings."""
        for body in (await store.documents(KIND)).values():
            self._state.apply(BookingSet(0, msgspec.json.decode(body, type=AdvanceReservation)))
        numbers = await store.documents(_NUMBER)
        self._last_numbers = {
            whose: msgspec.json.decode(number, type=int) for whose, number in numbers.items()
        }

    async def reserve(self, wish: ReservationWish) -> AdvanceReservation:
        """Book GPUs. The sentence of the refusal says what would be possible."""
        name = wish.booking_id
        if name is not None and wish.of_tenant:
            name = name.removeprefix(f"{wish.tenant_id}:")
        if name is not None and not _ID.fullmatch(name):
            raise InvalidRequest("id", wish.booking_id, f"an id is {NAME_RULE}")

        def decide(state: State) -> Decision[AdvanceReservation]:
            now = self._clock.now()
            number, booking_id = self._name(state, wish)
            wanted = self._request(state, wish, booking_id, now)
            found = advance_reservations.choose(state, wanted, now)
            if isinstance(found, Unbookable):
                raise _refusal(wanted, found)
            whose = _whose(wish)
            self._last_numbers[whose] = number
            documents = {**document(found), (_NUMBER, whose): msgspec.json.encode(number)}
            return Decision(found, [BookingSet(now, found)], documents=documents)

        # Alone: two who book at once must not get the same GPUs.
        return await self._writer.do(decide, touches=None)

    async def cancel(self, booking_id: str, cause: str = "cancelled") -> AdvanceReservation:
        """Cancel a reservation. Its waiting jobs are cancelled; running ones continue."""

        def decide(state: State) -> Decision[AdvanceReservation]:
            booking = booking_of(state, booking_id)
            gone = BookingRemoved(self._clock.now(), booking_id, cause)
            return Decision(booking, [gone], documents={(KIND, booking_id): None})

        return await self._writer.do(decide, touches=None)

    async def mend(self, now: int) -> None:
        """Move bookings that lost GPUs to others, where there are any."""
        if not self._state.ledger.bookings or not advance_reservations.broken(self._state, now):
            return

        def decide(state: State) -> Decision[None]:
            moved = advance_reservations.moves(state, now)
            documents: dict[tuple[str, str], bytes | None] = {}
            for booking in moved:
                documents |= document(booking)
            return Decision(None, [BookingSet(now, b) for b in moved], documents=documents)

        await self._writer.do(decide, touches=None)

    def problems(self) -> list[str]:
        """What an operator should know; empty when all is well."""
        return [
            f"reservation {booking_id}: {trouble}; no other GPUs are free for it"
            for booking_id, trouble in advance_reservations.broken(self._state, self._clock.now())
        ]

    def _name(self, state: State, wish: ReservationWish) -> tuple[int, str]:
        """The last number that is given out then, and the id."""
        prefix = f"{wish.tenant_id}:" if wish.of_tenant else ""
        number = self._last_numbers.get(_whose(wish), 0)
        if wish.booking_id is not None:
            booking_id = prefix + wish.booking_id.removeprefix(prefix)
            if booking_id in state.ledger.bookings:
                sentence = f"reservation {booking_id} already exists"
                raise Conflict(sentence, [{"id": booking_id}])
            return number, booking_id
        number += 1
        while f"{prefix}r-{number}" in state.ledger.bookings:
            number += 1
        return number, f"{prefix}r-{number}"

    def _request(
        self, state: State, wish: ReservationWish, booking_id: str, now: int
    ) -> AdvanceReservationRequest:
        self._check(state, wish)
        starts_at = now if wish.starts_at is None else wish.starts_at
        if starts_at < now - _SLACK_MS:
            raise InvalidRequest(
                "starts_at", utc_text(starts_at), f"has passed: it is {utc_text(now)}"
            )
        if starts_at > now + self._limits.ahead_ms:
            days = self._limits.ahead_ms // _DAY
            raise InvalidRequest(
                "starts_at", utc_text(starts_at), f"at most {plural(days, 'day')} ahead"
            )
        starts_at = max(starts_at, now)
        unused_ms = self._limits.unused_ms if wish.unused_ms is None else wish.unused_ms
        return AdvanceReservationRequest(
            booking_id,
            wish.tenant_id,
            wish.gpus,
            starts_at,
            starts_at + wish.length_ms,
            gpu_type=wish.gpu_type,
            node_id=wish.node_id,
            user=wish.user,
            unused_ms=None if wish.keep else unused_ms,
        )

    def _check(self, state: State, wish: ReservationWish) -> None:
        use = state.ledger.tenants.get(wish.tenant_id)
        if use is None:
            names = ", ".join(sorted(state.ledger.tenants)[:20])
            raise InvalidRequest("tenant_id", wish.tenant_id, f"no such tenant; there are: {names}")
        if not use.tenant.active:
            raise Conflict(f"tenant {wish.tenant_id} is inactive, so it cannot reserve GPUs")
        if wish.gpus < 1:
            raise InvalidRequest("gpus", wish.gpus, "at least 1")
        if wish.length_ms < SECOND:
            raise InvalidRequest("minutes", wish.length_ms / 60_000, "at least a second")
        if wish.length_ms > self._limits.longest_ms:
            hours = self._limits.longest_ms // _HOUR
            remedy = f"at most {plural(hours, 'hour')}, which scheduler.booking_max_hours allows"
            raise InvalidRequest("minutes", wish.length_ms / 60_000, remedy)


def _whose(wish: ReservationWish) -> str:
    """Which numbers are counted; the colon keeps a tenant called `last` apart."""
    return f"{wish.tenant_id}:" if wish.of_tenant else _BY_NO_TENANT


def document(booking: AdvanceReservation) -> Mapping[tuple[str, str], bytes | None]:
    return {(KIND, booking.booking_id): msgspec.json.encode(booking)}


def _refusal(wanted: AdvanceReservationRequest, why: Unbookable) -> SchedulerError:
    there = ", ".join(why.there)
    match why.code:
        case Refusal.NO_NODE:
            return Unavailable("no machine has reported its GPUs yet; try again in a moment")
        case Refusal.UNWELL:
            return Unavailable(
                f"only {why.limit} of these GPUs on one machine are healthy and not paused; "
                "`tgpu gpus` shows what is wrong with the others"
            )
        case Refusal.BOOKED:
            return _booked(wanted, why)
        case Refusal.QUOTA:
            what = f"{there} GPUs reserved at once".strip()
            numbers = (str(wanted.gpus), str(why.limit), str(why.booked))
            return QuotaExceeded(wanted.tenant_id, what, *numbers)
        case Refusal.USER_QUOTA:
            whose = f"{wanted.tenant_id}, user {wanted.user}"
            numbers = (str(wanted.gpus), str(why.limit), str(why.booked))
            return QuotaExceeded(whose, "GPUs reserved at once", *numbers)
        case _:
            return _never(wanted, why)


def _never(wanted: AdvanceReservationRequest, why: Unbookable) -> InvalidRequest:
    """What another time would not change."""
    there = ", ".join(why.there)
    if why.code is Refusal.NO_SUCH_NODE:
        return InvalidRequest("node", wanted.node_id, f"no such node; there are: {there}")
    if why.code is Refusal.NO_SUCH_GPU:
        remedy = f"there is no such GPU here; there are: {there}"
        return InvalidRequest("gpu_type", wanted.gpu_type, remedy)
    kind = wanted.gpu_type or "equal"
    remedy = f"no machine has more than {plural(why.limit, f'{kind} GPU')}, and all must be on one"
    return InvalidRequest("gpus", wanted.gpus, remedy)


def _booked(wanted: AdvanceReservationRequest, why: Unbookable) -> Conflict:
    kind = f" {wanted.gpu_type}" if wanted.gpu_type else ""
    span = f"from {utc_text(wanted.starts_at)} to {utc_text(wanted.ends_at)}"
    left = (
        f"{why.limit}{kind} GPU of one machine is"
        if why.limit == 1
        else (f"{why.limit}{kind} GPUs of one machine are")
    )
    sentence = f"only {left} left to reserve {span}"
    facts: dict[str, object] = {"requested": wanted.gpus, "free": why.limit}
    if why.free_at is not None:
        # To the second, and not before it: what is said must be possible when it is typed.
        free_at = utc_text(-(-why.free_at // SECOND) * SECOND)
        sentence += f"; {wanted.gpus} are free for as long from {free_at}"
        facts["free_at"] = free_at
    return Conflict(sentence, [facts])
