"""/api/v1/reservations: advance reservations of GPUs, stored as bookings."""

from fastapi import Request

from tgpu.api.access.visible import shown_name, sight, tenant_for
from tgpu.api.rest.context import caller_of, service_of
from tgpu.api.rest.parameters import Name
from tgpu.api.rest.route import Router
from tgpu.api.translate.submissions import instant
from tgpu.core.model.advance_reservation import AdvanceReservation
from tgpu.core.model.ids import NodeId
from tgpu.service.commands.reservations import ReservationWish
from tgpu.service.identity.ownership import Sight, check_booking
from tgpu.service.reads.reservations import no_booking
from tgpu.service.recording.audit import concerns
from tgpu.service.service import Service
from tgpu.text.instants import utc_millis_text
from tgpu.wire.reservations_v1 import ReservationCreate, ReservationList, ReservationModel

router = Router(tags=["reservations"])

_MINUTE = 60_000  # ms


@router.get("/api/v1/reservations")
async def list_reservations(request: Request, tenant_id: Name | None = None) -> ReservationList:
    """Reservations by start. Callers see those of their tenants."""
    service, caller = service_of(request), caller_of(request)
    found = [
        booking
        for booking in service.reads.reservations()
        if tenant_id in (None, booking.tenant_id) and caller.sees(booking.tenant_id)
    ]
    seen = sight(service, caller)
    return ReservationList(reservations=[_model(service, booking, seen) for booking in found])


@router.post("/api/v1/reservations", status_code=201)
async def reserve(request: Request, body: ReservationCreate) -> ReservationModel:
    """Reserve GPUs on one machine for a time. Jobs name the reservation to use them."""
    service, caller = service_of(request), caller_of(request)
    tenant_id = tenant_for(service, caller, body.tenant_id)
    unused = body.unused_minutes
    name = shown_name(caller)
    booking = await service.bookings.reserve(
        ReservationWish(
            tenant_id,
            body.gpus,
            round(body.minutes * _MINUTE),
            starts_at=None if body.starts_at is None else instant("starts_at", body.starts_at),
            booking_id=body.id,
            gpu_type=body.gpu_type,
            node_id=None if body.node is None else NodeId(body.node),
            user=body.user if name is None else name,
            unused_ms=None if unused is None else round(unused * _MINUTE),
            keep=unused == 0,
            of_tenant=caller.tenants is not None,
        )
    )
    return _model(service, booking, sight(service, caller))


@router.get("/api/v1/reservations/{reservation_id}")
async def get_reservation(request: Request, reservation_id: Name) -> ReservationModel:
    """A reservation that is not over."""
    service = service_of(request)
    seen = sight(service, caller_of(request))
    return _model(service, _visible(request, reservation_id), seen)


@router.delete("/api/v1/reservations/{reservation_id}")
async def cancel_reservation(request: Request, reservation_id: Name) -> ReservationModel:
    """Cancel a reservation. Its waiting jobs are cancelled; running ones continue."""
    service = service_of(request)
    caller = caller_of(request)
    booking = _visible(request, reservation_id)
    concerns(booking.booking_id, booking.tenant_id)
    check_booking(caller, booking)
    answer = _model(service, booking, sight(service, caller))
    await service.bookings.cancel(booking.booking_id, f"cancelled by {caller.name}")
    return answer


def _visible(request: Request, reservation_id: str) -> AdvanceReservation:
    """NotFound where it is not of one of the caller's tenants."""
    found = service_of(request).reads.reservation(reservation_id, caller_of(request).scope)
    if found is None:
        raise no_booking(reservation_id)
    return found


def _model(service: Service, booking: AdvanceReservation, seen: Sight) -> ReservationModel:
    now = service.clock.now()
    unused = booking.unused_ms
    return ReservationModel(
        id=booking.booking_id,
        tenant_id=booking.tenant_id,
        user=booking.user,
        node=booking.node_id,
        gpus=list(booking.gpus),
        gpu_type=booking.gpu_type,
        starts_at=utc_millis_text(booking.starts_at),
        ends_at=utc_millis_text(booking.ends_at),
        state="waiting" if now < booking.starts_at else "open",
        used=booking.used,
        unused_minutes=None if unused is None else unused / _MINUTE,
        jobs=_jobs(service, booking, seen),
        problem=service.reads.reservation_problems(now).get(booking.booking_id),
    )


def _jobs(service: Service, booking: AdvanceReservation, seen: Sight) -> list[str]:
    found = service.reads.reserved_jobs(booking.booking_id)
    return sorted(job.job_id for job in found if seen.sees_job(job))
