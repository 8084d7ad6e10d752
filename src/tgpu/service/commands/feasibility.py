"""Rejects jobs that could never start: over the tenant's quota, or larger than every node."""

from dataclasses import replace
from typing import Final

from tgpu.core.admission.cohort import ceiling
from tgpu.core.capacity.ledger import Ledger, NodeUse, TenantUse
from tgpu.core.errors import InvalidRequest, QuotaExceeded
from tgpu.core.explain.reason import never_reason
from tgpu.core.model.job import Job, JobClass, Request
from tgpu.core.model.reasons import Reason, ReasonCode
from tgpu.core.model.units import GPU, GPU_STEP, gpus_text, memory_text
from tgpu.core.placement.place import allows_type, could_ever_hold, memory_each
from tgpu.core.state.cluster_state import State
from tgpu.service.commands.gpu_choice import all_gpus, gpus_there, refuse_bare
from tgpu.text.gpu_names import as_word
from tgpu.text.plurals import plural


def refuse_what_never_fits(state: State, job: Job, job_class: JobClass) -> None:
    tenant_use = state.ledger.tenant(job.tenant_id)
    _check_quota(state.ledger, tenant_use, job_class)
    _check_user(tenant_use, job_class)
    _check_booking(state, job_class)
    uses = list(state.ledger.nodes.values())
    where = job_class.request.where
    refuse_bare(state.ledger, "allowed_gpus", where.gpus)
    refuse_bare(state.ledger, "excluded_gpus", where.not_gpus)
    if job_class.request.gpu_type is None:
        types = {gpu.gpu_type for use in uses for gpu in use.node.gpus}
        types = {gpu_type for gpu_type in types if allows_type(job_class.request, gpu_type)}
        _check_every_type(tenant_use, job_class.request.gpu_millis, types)
    if uses and not _could_hold(uses, job_class):
        raise _too_picky(state.ledger, uses, job_class) or _too_large(never_reason(uses, job_class))


def _check_booking(state: State, job_class: JobClass) -> None:
    """More, or others, than it has booked. What is not there at all, others refuse."""
    booking = state.ledger.bookings.get(job_class.booking or "")
    if booking is None:
        return
    request, has = job_class.request, plural(len(booking.gpus), f"{booking.gpu_type} GPU")
    remedy = f"reservation {booking.booking_id} has {has}"
    if request.gpu_millis > len(booking.gpus) * GPU:
        raise InvalidRequest("gpu_count", gpus_text(request.gpu_millis), remedy)
    types = (request.gpu_type,) if request.gpu_type is not None else request.where.gpu_types
    if types and booking.gpu_type not in types:
        raise InvalidRequest("gpu_type", ", ".join(types), remedy)


def _could_hold(uses: list[NodeUse], job_class: JobClass) -> bool:
    return could_ever_hold((use.node for use in uses), job_class)


def _too_picky(ledger: Ledger, uses: list[NodeUse], job_class: JobClass) -> InvalidRequest | None:
    """Where there are GPUs enough, and the job itself rules too many of them out."""
    gpus = [gpu for use in uses for gpu in use.node.gpus]
    request = job_class.request
    open_to_all = replace(request, where=replace(request.where, gpus=()))
    if request.where.gpus and _could_hold(uses, job_class._replace(request=open_to_all)):
        named = ",".join(str(as_word(gpu)) for gpu in request.where.gpus)
        return InvalidRequest("allowed_gpus", named, _too_few(ledger, request))
    frugal = job_class._replace(request=replace(request, gpu_mem_mib=0))
    if request.gpu_mem_mib and _could_hold(uses, frugal):
        sizes = [g.mem_mib for g in gpus if request.gpu_type in (None, g.gpu_type)]
        remedy = _too_much_memory(request, sizes)
        return InvalidRequest("gpu_memory_mb", memory_text(request.gpu_mem_mib), remedy)
    return None


def _too_few(ledger: Ledger, request: Request) -> str:
    """Which of the GPUs that a job names are not there, or that they are not enough."""
    names = all_gpus(ledger)
    there = {name for name in names} | {name.gpu_index for name in names}
    missing = [as_word(gpu) for gpu in request.where.gpus if gpu not in there]
    indexes = sorted(name.gpu_index for name in names)
    if ledger.has_several_nodes:
        span = gpus_there(ledger)
    elif indexes == list(range(len(indexes))) and len(indexes) > 1:
        span = f"0 to {indexes[-1]}"
    else:
        span = ", ".join(map(str, indexes))
    are = f"there {'is' if len(names) == 1 else 'are'} {len(names)}: {span}"
    if missing:
        return f"there is no GPU {', '.join(map(str, missing))}; {are}"
    return f"too few of these are suitable; {are}"


def _too_much_memory(request: Request, sizes: list[int]) -> str:
    """`sizes` are those of the GPUs that would do otherwise."""
    largest, each = max(sizes), memory_each(request)
    needed = -(-request.gpu_mem_mib * GPU // (request.workers * largest))
    least = -(-needed // GPU_STEP) * GPU_STEP
    if request.gpu_millis // request.workers < least <= GPU:
        has = f"the largest has {memory_text(largest)}"
        rule = f"a fraction of a GPU has that fraction of its memory, and {has}"
        return f"{rule}: ask for {gpus_text(least)} GPU, or for less memory"
    enough = sum(size >= each for size in sizes)
    have = f"{enough} here have that much" if enough else "no GPU here has it"
    return f"that is {memory_text(each)} a GPU; {have}, and the largest has {memory_text(largest)}"


def _check_quota(ledger: Ledger, use: TenantUse, job_class: JobClass) -> None:
    request, tenant = job_class.request, use.tenant
    if not tenant.enforce_quota:
        return
    checks: list[tuple[str, int, int | None, int, int]] = [
        ("GPUs", request.gpu_millis, ceiling(ledger, tenant), use.gpu_millis, 0),
        ("GPU memory MB", request.gpu_mem_mib, tenant.max_gpu_mem_mib, use.gpu_mem_mib, 1),
        ("CPU cores", request.cpu_millis, tenant.max_cpu_millis, use.cpu_millis, 0),
        ("memory MB", request.mem_mib, tenant.max_mem_mib, use.mem_mib, 1),
        ("concurrent jobs", 1, tenant.max_running_jobs, use.jobs, 1),
    ]
    if request.gpu_type is not None:
        limit = tenant.max_of_type(request.gpu_type)
        current = use.gpu_millis_by_type.get(request.gpu_type, 0)
        checks.append((f"{request.gpu_type} GPUs", request.gpu_millis, limit, current, 0))
    for what, requested, quota, current, is_plain in checks:
        if quota is not None and requested > quota:
            shown = [str(n) if is_plain else gpus_text(n) for n in (requested, quota, current)]
            raise QuotaExceeded(tenant.tenant_id, what, *shown)


def _check_user(use: TenantUse, job_class: JobClass) -> None:
    """More than its user may ever have of the tenant."""
    user, request, tenant = job_class.user, job_class.request, use.tenant
    limits = tenant.limits_of(user)
    if not tenant.enforce_quota:
        return
    whose, most = f"{tenant.tenant_id}, user {user}", limits.max_gpu_millis
    if most is not None and request.gpu_millis > most:
        amounts = (request.gpu_millis, most, use.gpu_millis_by_user.get(user, 0))
        raise QuotaExceeded(whose, "GPUs", *map(gpus_text, amounts))
    if limits.max_running_jobs == 0:
        raise QuotaExceeded(whose, "concurrent jobs", "1", "0", str(use.jobs_by_user.get(user, 0)))


def _check_every_type(use: TenantUse, requested: int, types: set[str]) -> None:
    """A request open to every type can start if the quota of one of them is large enough."""
    if not use.tenant.enforce_quota:
        return
    limits = [(use.tenant.max_of_type(gpu_type), gpu_type) for gpu_type in types]
    bounded = [(limit, gpu_type) for limit, gpu_type in limits if limit is not None]
    if not bounded or len(bounded) < len(limits) or requested <= max(bounded)[0]:
        return
    limit, gpu_type = max(bounded)
    current = use.gpu_millis_by_type.get(gpu_type, 0)
    shown = (gpus_text(amount) for amount in (requested, limit, current))
    raise QuotaExceeded(use.tenant.tenant_id, f"{gpu_type} GPUs", *shown)


_FIELDS: Final = {
    "gpus": "gpu_count",
    "cpu_millis": "cpu_cores",
    "memory_mib": "memory_mb",
    "gpu_mem_each_mib": "gpu_memory_each_mb",
    "not_gpus": "excluded_gpus",
    "not_nodes": "excluded_nodes",
}


def _too_large(why: Reason) -> InvalidRequest:
    if why.code is ReasonCode.NO_SUCH_GPU:
        remedy = f"there is no such GPU here; there are: {why.fact('types')}"
        return InvalidRequest("gpu_type", why.fact("gpu_type"), remedy)
    if why.code is ReasonCode.CONDITION:
        field = str(why.fact("field"))
        remedy = "no machine meets that; see `tgpu nodes`"
        return InvalidRequest(_FIELDS.get(field, field), why.fact("value"), remedy)
    resource = str(why.fact("resource"))
    requested, largest = int(why.fact("requested")), int(why.fact("largest"))
    if resource == "gpus":
        remedy = f"at most {gpus_text(largest)} {_which(why, 'GPUs')} are on one machine"
        return InvalidRequest("gpu_count", gpus_text(requested), remedy)
    if resource == "workers":
        each = f" of one type ({why.fact('by_type')})" if why.fact("by_type") else ""
        return InvalidRequest("workers", requested, f"all machines together hold {largest}{each}")
    if resource == "cpu_millis":
        remedy = f"the largest machine has {gpus_text(largest)} cores"
        return InvalidRequest(_FIELDS[resource], gpus_text(requested), remedy)
    remedy = f"the largest machine has {memory_text(largest)}"
    return InvalidRequest(_FIELDS[resource], memory_text(requested), remedy)


def _which(why: Reason, noun: str) -> str:
    if why.fact("gpu_type"):
        return f"{why.fact('gpu_type')} {noun}"
    return f"{noun} of one type ({why.fact('by_type')})" if why.fact("by_type") else noun
