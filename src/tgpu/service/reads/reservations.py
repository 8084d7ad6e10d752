"""Reservations, looked up in a state."""

from collections.abc import Iterable

from tgpu.core.errors import (
    NotFound,
)
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import TenantId
from tgpu.core.state.cluster_state import State


def named(state: State, name: str, tenants: Iterable[TenantId] | None) -> AdvanceReservation | None:
    """The booking of that id, or of that name of one of these tenants; None: those of all."""
    booking = state.ledger.bookings.get(name)
    if tenants is None:
        return booking
    if booking is not None and booking.tenant_id in tenants:
        return booking
    found = (state.ledger.bookings.get(f"{tenant_id}:{name}") for tenant_id in tenants)
    return next((own for own in found if own is not None), None)


def booking_of(state: State, booking_id: str) -> AdvanceReservation:
    booking = state.ledger.bookings.get(booking_id)
    if booking is None:
        raise no_booking(booking_id)
    return booking


def no_booking(booking_id: str) -> NotFound:
    return NotFound("reservation", booking_id, "it may be over: `tgpu reservations` shows the rest")


def bookings_of(state: State) -> list[AdvanceReservation]:
    """By start, then id."""
    return sorted(state.ledger.bookings.values(), key=lambda b: (b.starts_at, b.booking_id))
