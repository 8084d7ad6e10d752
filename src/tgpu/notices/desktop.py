"""Notices on the desktop of the user who runs the service, by notify-send."""

import asyncio
import contextlib
import html
from collections.abc import Sequence
from typing import Final

from tgpu.notices.notice import Letter, NoticeKind, NotSent
from tgpu.text.system_words import system_words

_PROGRAM: Final = "notify-send"
_MOST: Final = 10
_URGENT: Final = frozenset({NoticeKind.FAILURE, NoticeKind.GPU, NoticeKind.DEADLINE})


class DesktopTarget:
    most = _MOST
    where = "this desktop"
    secrets: tuple[str, ...] = ()

    def __init__(self, timeout_seconds: float, program: str = _PROGRAM) -> None:
        self._timeout_seconds = timeout_seconds
        self._program = program

    async def send(self, letters: Sequence[Letter]) -> list[str]:
        notices = [letter.notice for letter in letters]
        if not notices:
            return []
        title, body = notices[0].title, notices[0].text
        if len(notices) > 1:
            title, body = f"{len(notices)} notices", "\n".join(each.title for each in notices)
        urgent = any(notice.kind in _URGENT for notice in notices)
        # Arguments, no shell, and nothing after `--` is an option, whatever a job is called.
        await self._run(
            "--app-name=tgpu",
            f"--urgency={'critical' if urgent else 'normal'}",
            "--",
            title,
            html.escape(body, quote=False),
        )
        return []

    async def close(self) -> None:
        """Nothing stays open."""

    async def _run(self, *arguments: str) -> None:
        try:
            process = await asyncio.create_subprocess_exec(
                self._program,
                *arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise NotSent(
                f"{self._program} cannot be run: {system_words(error)}; on Debian: "
                "apt install libnotify-bin"
            ) from None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                _, said = await process.communicate()
        except TimeoutError:
            raise NotSent(f"{self._program} took longer than {self._timeout_seconds:g} s") from None
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()
        if process.returncode:
            words = " ".join(said.decode(errors="replace").split())[:200]
            raise NotSent(f"{self._program} failed ({process.returncode}): {words}")
