"""Commands about identity: keys create, list and revoke; audit; whoami."""

from enum import StrEnum
from typing import Annotated

import typer

from tgpu.cli.options import ApiUrl, Json, examples

EPILOG = examples(
    "tgpu keys create ci --role user --tenant vision",
    "tgpu keys list",
    "tgpu keys revoke abcdefghij",
)
_CREATE_EPILOG = examples(
    "tgpu keys create boss --role admin",
    "tgpu keys create ci --tenant vision --tenant speech --expires 90d",
    "tgpu keys create grafana --role viewer --tenant '*'",
)
_LIST_EPILOG = examples("tgpu keys list", "tgpu keys list --json")
_REVOKE_EPILOG = examples("tgpu keys revoke abcdefghij")
AUDIT_EPILOG = examples("tgpu audit", "tgpu audit --tenant vision --limit 1000 --json")
WHOAMI_EPILOG = examples("tgpu whoami", "tgpu whoami --json | jq .tenants")

app = typer.Typer(
    name="keys",
    help="API keys for access over the network.",
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


class RoleChoice(StrEnum):
    ADMIN = "admin"
    OPERATOR = "operator"
    USER = "user"
    VIEWER = "viewer"


@app.command("create", epilog=_CREATE_EPILOG)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the user or purpose.")],
    *,
    role: Annotated[RoleChoice, typer.Option(help="Role of the holder.")] = RoleChoice.USER,
    tenant: Annotated[
        list[str] | None,
        typer.Option(metavar="TENANT", help="Tenant of the key. Repeatable; * for all."),
    ] = None,
    expires: Annotated[str | None, typer.Option(metavar="SPAN", help="Validity, e.g. 90d.")] = None,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Create an API key and print it. It is shown only once."""
    from tgpu.cli.connect import connected
    from tgpu.cli.options import read_option
    from tgpu.cli.output import note, say, show_json
    from tgpu.text.durations import parse_duration
    from tgpu.wire.keys_v1 import KeyCreate

    fields: dict[str, object] = {"name": name, "role": role.value}
    if tenant:
        fields["tenants"] = tenant
    if expires is not None:
        fields["expires_in_days"] = read_option("--expires", parse_duration, expires) / 86_400
    with connected(api_url) as client:
        made = client.create_key(KeyCreate.model_validate(fields))
    if as_json:
        show_json(made)
        return
    say(made.key)
    for warning in made.warnings:
        note(f"warning: {warning}")
    note(f"keep it safe: it is not shown again; `tgpu keys revoke {made.id}` revokes it")


@app.command("list", epilog=_LIST_EPILOG)
def list_keys(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the keys, without their secrets."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.keys import key_grid

    with connected(api_url) as client:
        found = client.list_keys()
    if as_json:
        show_json(found)
    else:
        show_lines(lay_out(key_grid(found), width()))


@app.command("revoke", epilog=_REVOKE_EPILOG)
def revoke(
    key: Annotated[str, typer.Argument(metavar="KEY", help="Id of a key, as `list` shows it.")],
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Revoke a key for ever, with immediate effect."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json

    with connected(api_url) as client:
        revoked = client.revoke_key(key)
    if as_json:
        show_json(revoked)
    else:
        say(f"key {revoked.id} ({revoked.name}) is revoked")


def audit(
    tenant: Annotated[
        str | None, typer.Option(metavar="TENANT", help="Only calls about this tenant.")
    ] = None,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=1000, help="Maximum number to show.")
    ] = 50,
    as_json: Json = False,
    api_url: ApiUrl = None,
) -> None:
    """Show the audit log, newest first: who changed what, or tried to."""
    from tgpu.cli.connect import connected
    from tgpu.cli.output import show_json, show_lines, width
    from tgpu.cli.render.grid import lay_out
    from tgpu.cli.render.keys import audit_grid

    with connected(api_url) as client:
        found = client.audit(tenant_id=tenant, limit=limit)
    if as_json:
        show_json(found)
    else:
        show_lines(lay_out(audit_grid(found), width()))


def whoami(as_json: Json = False, api_url: ApiUrl = None) -> None:
    """Show the identity the scheduler sees, why, and your tenant."""
    from tgpu.cli import own_config
    from tgpu.cli.connect import connected
    from tgpu.cli.output import say, show_json
    from tgpu.cli.render.whoami import whoami_lines

    with connected(api_url) as client:
        found = client.whoami()
    chosen = own_config.chosen("tenant", None)
    if as_json:
        applies = chosen.value if chosen is not None else found.tenant
        source = chosen.source if chosen is not None else "scheduler"
        show_json({**found.model_dump(), "applies": applies, "applies_from": source})
        return
    for line in whoami_lines(found, chosen):
        say(line)
