"""A hint for an empty list whose `--tenant` does not exist."""

from tgpu.cli.failures import bad_input
from tgpu.client.errors import Denied, NotFound
from tgpu.client.http import Client


def refuse_unknown_tenant(client: Client, tenant_id: str | None) -> None:
    """Raises bad input, with the tenants there are for this caller. One more call: ask it late."""
    if tenant_id is None:
        return
    try:
        there = sorted(tenant.id for tenant in client.list_tenants().tenants)
    except (Denied, NotFound):
        return  # who may not know the tenants reads that there are no such jobs
    if tenant_id not in there:
        listed = ", ".join(there[:20]) or "none for you"
        raise bad_input(f"--tenant: there is no tenant {tenant_id!r}; there are: {listed}")
