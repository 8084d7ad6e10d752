"""/api/v1/notices: the targets of notices, their state, and a test."""

from fastapi import APIRouter, Request

from tgpu.api.rest.context import service_of
from tgpu.api.rest.parameters import Name
from tgpu.notices.delivery import Delivery
from tgpu.notices.dispatch import Dispatch
from tgpu.wire.notices_v1 import NoticeList, NoticeModel, NoticeTried

router = APIRouter(tags=["notices"])


@router.get("/api/v1/notices")
async def notices(request: Request) -> NoticeList:
    """The targets of notices, in the order of the settings."""
    return NoticeList(notices=[_model(each) for each in _dispatch(request).deliveries])


@router.post("/api/v1/notices/{name}/test")
async def try_notice(request: Request, name: Name) -> NoticeTried:
    """Send a test notice now, and say whether it was delivered."""
    tried = await _dispatch(request).test(name)
    return NoticeTried(
        name=tried.name,
        where=tried.where,
        ok=tried.problem is None,
        problem=tried.problem,
        seconds=tried.seconds,
    )


def _dispatch(request: Request) -> Dispatch:
    service = service_of(request)
    found = request.app.state.notices
    return found if isinstance(found, Dispatch) else Dispatch(service)


def _model(delivery: Delivery) -> NoticeModel:
    rule = delivery.rule
    return NoticeModel(
        name=rule.name,
        kind=rule.kind,
        where=delivery.target.where,
        events=sorted(rule.events),
        tenants=sorted(rule.tenants),
        users=sorted(rule.users),
        for_jobs=rule.for_jobs,
        sent=delivery.sent,
        dropped=delivery.dropped,
        failed_tries=delivery.failed_tries,
        problem=delivery.problem,
        behind=delivery.behind,
    )
