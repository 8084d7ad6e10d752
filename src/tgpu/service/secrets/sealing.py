"""Encryption of secrets at rest.

Sealed are whole environments of submitters, and in what they say of a job the very values that are
hidden when it is shown (`text/masking.py`). The keys are in a file of their own, so a copy of the
database tells nothing. The same value under the same key gives the same text (AES-SIV), so that a
request that is repeated is recognised; who has no key can make no use of that.
"""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESSIV
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from tgpu.core.model.job import Detail
from tgpu.text.masking import (
    SEALED,
    given_values,
    is_secret_option,
    mask_argv,
    mask_text,
    mask_values,
    mask_variables,
    secret_values,
)

KEY_BYTES: Final = 32
Params = tuple[tuple[str, tuple[str, ...]], ...]

_WHOLE: Final = ""  # the name under which a whole environment stands: no variable has it
_PURPOSE: Final = b"gpu-scheduler sealed value"
# Around the number of a value that waits to be sealed. Texts that have them are sealed whole.
_OPEN, _SHUT = "\ue000", "\ue001"
_HELD: Final = re.compile(f"{_OPEN}(\\d+){_SHUT}")


class CannotUnseal(Exception):
    """The key is another, or the text was changed."""


class _Key:
    def __init__(self, secret: bytes) -> None:
        self.name = hashlib.sha256(b"name of " + secret).hexdigest()[:8]
        self.cipher = AESSIV(_derived(secret, b"values", 64))
        self.ids = _derived(secret, b"ids of environments", 32)


class Sealer:
    """The first of the keys seals; all of them unseal."""

    def __init__(self, secrets: Sequence[bytes]) -> None:
        self._keys = [_Key(secret) for secret in secrets]
        self._by_name = {key.name: key for key in self._keys}

    @property
    def key_name(self) -> str:
        """Of the key that seals; it tells nothing of the key."""
        return self._keys[0].name

    @property
    def key_names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    def seal(self, value: str) -> str:
        key = self._keys[0]
        data = value.encode("utf-8", "surrogatepass")
        sealed = key.cipher.encrypt(b"\x01" + data, [_PURPOSE])  # it takes no empty text
        return f"sealed:{key.name}:{base64.urlsafe_b64encode(sealed).decode().rstrip('=')}:"

    def unseal(self, text: str) -> str:
        """The text with all that is sealed in it readable. Raises CannotUnseal."""
        return SEALED.sub(self._value, text) if "sealed:" in text else text

    def reseal(self, text: str) -> str:
        """The same under the first key."""
        return SEALED.sub(lambda found: self.seal(self._value(found)), text)

    def _value(self, found: re.Match[str]) -> str:
        key = self._by_name.get(found[1])
        if key is None:
            raise CannotUnseal(
                f"it is encrypted with key {found[1]}, which this service does not have"
            )
        padded = found[2] + "=" * (-len(found[2]) % 4)
        try:
            data = key.cipher.decrypt(base64.urlsafe_b64decode(padded), [_PURPOSE])
        except (InvalidTag, ValueError):
            raise CannotUnseal(f"data encrypted with key {key.name} was changed") from None
        return data[1:].decode("utf-8", "surrogatepass")

    # -- environments ----------------------------------------------------------------------------

    def environment(self, variables: Mapping[str, str]) -> tuple[str, dict[str, str]]:
        """Its id and what is stored. Without a key nobody can try out what might be in it."""
        text = _plain(variables)
        return self._env_id(self._keys[0], text), {_WHOLE: self.seal(text)}

    def env_ids(self, variables: Mapping[str, str]) -> set[str | None]:
        """All ids that it may have had, under older keys and in earlier versions."""
        text = _plain(variables)
        return {*(self._env_id(key, text) for key in self._keys), _earlier_id(variables)}

    def opened(self, stored: Mapping[str, str]) -> Mapping[str, str]:
        """A stored environment; those of earlier versions are as they are. Raises CannotUnseal."""
        if _WHOLE not in stored:
            return stored
        text = self.unseal(stored[_WHOLE]).encode("utf-8", "surrogatepass")
        return dict(_PAIRS.decode(text))

    def _env_id(self, key: _Key, text: str) -> str:
        data = text.encode("utf-8", "surrogatepass")
        return hmac.digest(key.ids, data, "sha256").hex()[:32]

    # -- what is said of a job -------------------------------------------------------------------

    def sealed(
        self, detail: Detail, params: Params, base: Mapping[str, str]
    ) -> tuple[Detail, Params]:
        """For the record: with the secrets in it sealed.

        `base` is the submitter's environment, whose secrets may have come into the command;
        `params` are those of a sweep, whose names in braces must stay readable.
        """
        work = _Sealing(self.seal, [f"{{{name}}}" for name, _ in params])
        work.look_for(detail, base)
        argv = mask_argv([work.first(word) for word in detail.argv], work.hold)
        env = mask_variables(((n, work.first(v)) for n, v in detail.env), work.hold)
        made = replace(
            detail,
            name=work.text(detail.name),
            argv=tuple(work.done(word) for word in argv),
            cwd=work.text(detail.cwd),
            image=work.text(detail.image),
            env=tuple((name, work.done(value)) for name, value in env),
            params=tuple((n, work.parameter(n, value)) for n, value in detail.params),
            secrets=tuple((name, self.seal(value)) for name, value in detail.secrets),
        )
        swept = tuple((n, tuple(work.parameter(n, value) for value in vs)) for n, vs in params)
        return made, swept

    def lost(self, detail: Detail) -> bool:
        """Whether something sealed in what is said of a job would be readable in another's record:
        it was known by the owner's variables alone, which the other has not."""
        again, _ = self.sealed(self.unsealed(detail), (), {})
        return not self._hidden_in(detail) <= self._hidden_in(again)

    def _hidden_in(self, detail: Detail) -> set[str]:
        texts = (detail.name, detail.cwd, detail.image, *detail.argv)
        texts += tuple(value for _, value in detail.params)
        return {self.unseal(found[0]) for text in texts for found in SEALED.finditer(text)}

    def readable(self, detail: Detail) -> Detail:
        """The same where it can be; else as it is."""
        try:
            return self.unsealed(detail)
        except CannotUnseal:
            return detail

    def unsealed(self, detail: Detail) -> Detail:
        """For running it. Raises CannotUnseal."""
        return replace(
            detail,
            name=self.unseal(detail.name),
            argv=tuple(map(self.unseal, detail.argv)),
            cwd=self.unseal(detail.cwd),
            image=self.unseal(detail.image),
            env=tuple((name, self.unseal(value)) for name, value in detail.env),
            params=tuple((name, self.unseal(value)) for name, value in detail.params),
            secrets=tuple((name, self.unseal(value)) for name, value in detail.secrets),
        )


class _Sealing:
    """The secrets of one submission: first taken out, then sealed and put back in."""

    def __init__(self, seal: Callable[[str], str], kept: Collection[str]) -> None:
        self._seal = seal
        self._kept = kept
        self._held: list[str] = []
        self._secrets: tuple[str, ...] = ()

    def look_for(self, detail: Detail, base: Mapping[str, str]) -> None:
        """What is hidden in one place is hidden in all."""
        found = {**base}

        def note(value: str) -> str:
            found[f"token {value}"] = value
            return value

        mask_argv(detail.argv, note)
        mask_variables(detail.env, note)
        given = given_values(detail.secrets)
        self._secrets = tuple(sorted({*secret_values(found), *given}, key=len, reverse=True))

    def hold(self, value: str) -> str:
        if any(name in value for name in self._kept):
            return value  # it is filled in later
        self._held.append(value)
        return f"{_OPEN}{len(self._held) - 1}{_SHUT}"

    def first(self, text: str) -> str:
        if _OPEN in text or _SHUT in text:
            self._held.append(text.replace(_OPEN, f"{_OPEN}!"))
            return f"{_OPEN}{len(self._held) - 1}{_SHUT}"
        # What looks sealed is the caller's own text, and must not open what is another's.
        return mask_values(
            SEALED.sub(lambda each: self.hold(each[0]), text), self._secrets, self.hold
        )

    def text(self, text: str) -> str:
        return self.done(mask_text(self.first(text), self.hold))

    def parameter(self, name: str, value: str) -> str:
        first = self.first(value)
        return self.done(self.hold(first) if value and is_secret_option(name) else first)

    def done(self, text: str) -> str:
        return _HELD.sub(lambda found: self._seal(self._whole(int(found[1]))), text)

    def _whole(self, number: int) -> str:
        """One may hold others: they were found one after the other."""
        whole = _HELD.sub(lambda found: self._whole(int(found[1])), self._held[number])
        return whole.replace(f"{_OPEN}!", _OPEN)


_PAIRS: Final = msgspec.json.Decoder(list[tuple[str, str]])


def _plain(variables: Mapping[str, str]) -> str:
    return msgspec.json.encode(sorted(variables.items())).decode()


def _earlier_id(variables: Mapping[str, str]) -> str | None:
    if not variables:
        return None
    text = json.dumps(sorted(variables.items()), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _derived(secret: bytes, purpose: bytes, length: int) -> bytes:
    return HKDF(hashes.SHA256(), length, salt=None, info=b"gpu-scheduler " + purpose).derive(secret)
