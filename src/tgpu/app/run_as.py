"""Checks before the service starts which users jobs run as, by the settings."""

import os
from typing import Final

import structlog

from tgpu.accounts.system import SystemAccounts
from tgpu.app.refusal import CannotServe
from tgpu.app.user_map import map_settings
from tgpu.service.identity.run_as import TENANT, RunAsRules, shared_user, unfit, users_of
from tgpu.settings import Settings

_log = structlog.get_logger("gpu_scheduler")

_AS_ROOT: Final = (
    "run it as root and give each tenant its own user (tenants[].run_as, or engine.run_as: "
    "tgpu-{tenant}), or say with engine.jobs_as_service_user: true that every caller who may "
    "submit shall have all the rights of the service; engine.kind: none runs no jobs at all"
)


def run_as_rules(settings: Settings) -> RunAsRules:
    engine = settings.engine
    return RunAsRules(
        shared=settings.auth.enabled,
        user=engine.run_as,
        as_service=engine.jobs_as_service_user,
        users=map_settings(settings.auth),
    )


def check_run_as(settings: Settings, own_uid: int | None = None) -> None:
    """Raises CannotServe where jobs of callers could only run with the rights of the service, as
    somebody who is not there, or as one user for two tenants."""
    own_uid = os.geteuid() if own_uid is None else own_uid
    if settings.engine.kind == "none":
        return
    if not settings.auth.enabled:
        _warn_of_no_effect(settings)
        return
    if settings.engine.jobs_as_service_user:
        _check_as_service(own_uid)
    elif own_uid != 0:
        raise CannotServe(
            "with auth.enabled, jobs of callers must not run as the user of the service, and this "
            f"one does not run as root, so it cannot run them as anybody else: {_AS_ROOT}"
        )
    _check_users(settings, own_uid)


def _check_as_service(own_uid: int) -> None:
    if own_uid == 0:
        raise CannotServe(
            "engine.jobs_as_service_user: this service runs as root, and jobs of callers never do; "
            "leave it out and give each tenant a user (tenants[].run_as)"
        )
    _log.warning(
        "engine.jobs_as_service_user: every caller who may submit jobs has all the rights of this "
        "service: its keys, its database, everybody's logs",
        uid=own_uid,
    )


def _check_users(settings: Settings, own_uid: int) -> None:
    accounts = SystemAccounts()
    tenants = [tenant.to_tenant(settings.billing.cost_per_gpu_hour) for tenant in settings.tenants]
    for tenant in tenants:
        if tenant.run_as and (problem := unfit(accounts, tenant.run_as, own_uid)):
            raise CannotServe(
                f"tenants: run_as of {tenant.tenant_id}, {tenant.run_as!r}: {problem}"
            )
    fallback = settings.engine.run_as
    if fallback and TENANT not in fallback:
        if problem := unfit(accounts, fallback, own_uid):
            raise CannotServe(f"engine.run_as, {fallback!r}: {problem}")
        bare = [tenant.tenant_id for tenant in tenants if not tenant.run_as]
        if bare and not dict(users_of(tenants, fallback)).keys() & set(bare):
            raise CannotServe(
                f"engine.run_as names one user, {fallback}, for the tenants {', '.join(bare)}: "
                "jobs of two tenants never run as one user; give each its own "
                "(tenants[].run_as), or write engine.run_as: tgpu-{tenant}"
            )
    shared = shared_user(tenants, fallback)
    if shared is not None:
        user, first, second = shared
        raise CannotServe(
            f"tenants: {first} and {second} both run jobs as {user} (run_as); jobs of two tenants "
            "never run as one user"
        )


def _warn_of_no_effect(settings: Settings) -> None:
    engine = settings.engine
    given = [tenant.tenant_id for tenant in settings.tenants if tenant.run_as]
    if given or engine.run_as or engine.jobs_as_service_user:
        _log.warning(
            "without auth.enabled all jobs run as the owner of the service: run_as and "
            "jobs_as_service_user have no effect",
            tenants=given,
        )
