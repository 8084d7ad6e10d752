"""The key that encrypts the secrets of a database; its name is stored beside them."""

from typing import Final

from tgpu.core.errors import Conflict
from tgpu.service.secrets.sealing import Sealer
from tgpu.store.api import Store

KIND: Final = "sealing_key"  # documents: the name of the key that sealed last
_CURRENT: Final = "current"


def key_document(sealer: Sealer) -> dict[tuple[str, str], bytes | None]:
    """Written in the first commit that has something sealed."""
    return {(KIND, _CURRENT): sealer.key_name.encode()}


async def key_is_recorded(store: Store, sealer: Sealer) -> bool:
    """Whether this very key is on record. Conflict where that is one we do not have: what jobs were
    given could not be read, and they would fail one after the other."""
    body = (await store.documents(KIND)).get(_CURRENT)
    if body is None:
        return False
    name = body.decode()
    if name not in sealer.key_names:
        raise Conflict(
            f"the secrets in this database are encrypted with key {name}, and the key file has "
            f"{', '.join(sealer.key_names)}: put the right file back (secret.key in the data "
            "directory, or security.secret_key_file); if it is lost, `tgpu db rotate-key "
            "--lost-key` gives up those secrets"
        )
    return name == sealer.key_name
