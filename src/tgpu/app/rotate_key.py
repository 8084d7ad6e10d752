"""Rotates the key of a database: encrypts everything again, including what was stored in clear
text."""

from dataclasses import dataclass
from pathlib import Path

from tgpu.app.refusal import CannotServe
from tgpu.app.secret_key import key_file, new_key, read_keys, write_keys
from tgpu.database import StoreTable, Value, address_of, rewrite
from tgpu.service.secrets.sealing import CannotUnseal, Sealer
from tgpu.service.secrets.sealing_key import KIND
from tgpu.settings import Settings
from tgpu.store.codec import decode_environment, environment_text


@dataclass(frozen=True, slots=True)
class Rotated:
    key_name: str
    file: Path
    rows: int  # that were written anew
    lost: int  # … that are sealed with a key that is not there


def rotate_key(settings: Settings, data_dir: Path, *, lost_key: bool = False) -> Rotated:
    """Refused while a service runs on the database. CannotServe and SchedulerError say why not.

    The file has both keys until everything is written: whenever it is cut short, all of it can be
    read, and it can be done again.
    """
    address = address_of(settings)
    if address is None:
        raise CannotServe("the settings keep jobs in memory, so there is nothing to encrypt again")
    path = key_file(settings, data_dir)
    old = read_keys(path) if path.exists() else []
    keys = [new_key(), *old]
    sealer = Sealer(keys)
    work = _Work(sealer, lost_key)
    write_keys(path, keys)
    rows = rewrite(address, work.row, {(KIND, "current"): sealer.key_name.encode()})
    if not work.lost:
        write_keys(path, keys[:1])
    return Rotated(sealer.key_name, path, rows, work.lost)


class _Work:
    def __init__(self, sealer: Sealer, lost_key: bool) -> None:
        self._sealer = sealer
        self._lost_key = lost_key
        self.lost = 0

    def row(self, table: StoreTable, row: tuple[Value, ...]) -> tuple[Value, ...]:
        if table.name == "environments":
            env_id, data = row
            return env_id, self._environment(str(data))
        if table.name not in ("jobs", "journal"):
            return row
        return tuple(self._text(value) if isinstance(value, str) else value for value in row)

    def _environment(self, data: str) -> str:
        stored = decode_environment(data)
        if "" in stored or not stored:
            return self._text(data)
        return environment_text(self._sealer.environment(stored)[1])  # of an earlier version

    def _text(self, text: str) -> str:
        if "sealed:" not in text:
            return text
        try:
            return self._sealer.reseal(text)
        except CannotUnseal as error:
            if not self._lost_key:
                raise CannotServe(
                    f"something in the database cannot be read: {error}; put the right key file "
                    "back, or give --lost-key to give up what is lost"
                ) from None
            self.lost += 1
            return text
