"""`tgpu config set`, `get`, `unset` and `list`: a user's own defaults."""

from typing import Annotated

import typer

from tgpu.cli.options import Json, complete_tenants, examples

SET_EPILOG = examples("tgpu config set tenant vision", "tgpu whoami    # shows which applies")
GET_EPILOG = examples("tgpu config get tenant")
UNSET_EPILOG = examples("tgpu config unset tenant")
LIST_EPILOG = examples("tgpu config list", "tgpu config list --json")


def complete_keys(incomplete: str) -> list[str]:
    from tgpu.cli.own_config import KEYS

    return [key for key in KEYS if key.startswith(incomplete)]


Key = Annotated[
    str, typer.Argument(metavar="KEY", help="Key: tenant.", autocompletion=complete_keys)
]


def set_own(
    key: Key,
    value: Annotated[
        str,
        typer.Argument(
            metavar="VALUE", help="Your default tenant.", autocompletion=complete_tenants
        ),
    ],
    as_json: Json = False,
) -> None:
    """Set a default for all your commands: the tenant to submit for.

    It is stored in ~/.config/tgpu/config.toml. TGPU_TENANT and --tenant override it.
    """
    from tgpu.cli import own_config
    from tgpu.cli.environment import home_relative
    from tgpu.cli.output import say, show_json

    own_config.check_key(key)
    path = own_config.write(own_config.read() | {key: own_config.check_value(key, value)})
    if as_json:
        show_json({"key": key, "value": value, "file": str(path)})
    else:
        say(f"{key} is {value} from now on (in {home_relative(path)})")


def get_own(key: Key, as_json: Json = False) -> None:
    """Print the value in use: from the variable, else from your file."""
    from tgpu.cli import own_config
    from tgpu.cli.exit_codes import ExitCode
    from tgpu.cli.failures import Failure
    from tgpu.cli.output import say, show_json

    found = own_config.chosen(own_config.check_key(key), None)
    if found is None:
        raise Failure(
            f"{key} is not set",
            f"set it with: tgpu config set {key} VALUE",
            exit_code=ExitCode.FAILURE,
            code="NOT_SET",
        )
    if as_json:
        show_json({"key": key, "value": found.value, "source": found.source})
    else:
        say(found.value)


def unset_own(key: Key, as_json: Json = False) -> None:
    """Remove a value."""
    from tgpu.cli import own_config
    from tgpu.cli.output import say, show_json

    kept = own_config.read()
    was = kept.pop(own_config.check_key(key), None)
    if was is not None:
        own_config.write(kept)
    if as_json:
        show_json({"key": key, "was": was})
    else:
        say(f"{key} was not set" if was is None else f"{key} is no longer set (it was {was})")


def list_own(as_json: Json = False) -> None:
    """Show the values in use, and where they came from."""
    from tgpu.cli import own_config
    from tgpu.cli.output import say, show_json

    found = {key: own_config.chosen(key, None) for key in own_config.KEYS}
    if as_json:
        show_json(
            {
                "file": str(own_config.config_file()),
                "values": [
                    {"key": key, "value": one and one.value, "source": one and one.source}
                    for key, one in found.items()
                ],
            }
        )
        return
    for key, one in found.items():
        say(f"{key} is not set" if one is None else f"{key} = {one.value} (from {one.source})")
