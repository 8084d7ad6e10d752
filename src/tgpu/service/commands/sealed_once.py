"""Encrypts what many jobs share only once: the jobs of an array hardly differ."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tgpu.core.model.job import Detail
from tgpu.service.commands.submission import Submission

_Environments = dict[str, Mapping[str, str]]
_Seal = Callable[[Submission, str], tuple[Submission, _Environments]]


class SealedOnce:
    def __init__(self, seal: _Seal, nonce: str) -> None:
        self._seal = seal
        self._nonce = nonce
        # By what is sealed, and by which environment: that one object is kept, so is its id.
        self._done: dict[tuple[Detail, int], tuple[Submission, _Environments]] = {}

    def sealed(self, submission: Submission) -> tuple[Submission, _Environments]:
        """As `seal` does it. Of submissions without parameters of their own."""
        key = replace(submission.detail, rerun_of=None), id(submission.base_environment)
        if key not in self._done:
            self._done[key] = self._seal(submission, self._nonce)
        done, environments = self._done[key]
        detail = replace(done.detail, rerun_of=submission.detail.rerun_of)
        return replace(submission, detail=detail, nonce=self._nonce), environments
