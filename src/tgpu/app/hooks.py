"""The operator's prolog and epilog around the engine, where there are any."""

import os
import stat

from tgpu.app.refusal import CannotServe
from tgpu.engines.api import Engine
from tgpu.engines.hooks.engine import FolderEngine, HookedEngine, HookSettings
from tgpu.service.service import Service
from tgpu.settings import Settings
from tgpu.text.system_words import system_words


def with_hooks(engine: FolderEngine | None, settings: Settings) -> Engine | None:
    """Raises CannotServe for programs that are not there, or that others could exchange."""
    chosen = settings.engine
    if engine is None or not (chosen.prolog or chosen.epilog):
        return engine
    for name, argv in (("prolog", chosen.prolog), ("epilog", chosen.epilog)):
        if argv:
            _check(f"engine.{name}", argv[0])
    return HookedEngine(
        engine,
        HookSettings(
            chosen.prolog,
            chosen.epilog,
            chosen.hook_timeout_seconds,
            chosen.prolog_failures,
            chosen.epilog_holds,
        ),
    )


def connect_hooks(service: Service) -> None:
    """What fails again and again keeps new jobs off the machine, and is said in its health."""
    engine = service.engine
    if isinstance(engine, HookedEngine):
        engine.hold = service.hold_node
        service.engine_problems = engine.problems


def _check(setting: str, program: str) -> None:
    if not program.startswith("/"):
        raise CannotServe(f"{setting}: {program!r} is not an absolute path; begin it with /")
    try:
        found = os.stat(program)
    except OSError as error:
        raise CannotServe(f"{setting}: {program}: {system_words(error)}") from None
    if not stat.S_ISREG(found.st_mode) or not os.access(program, os.X_OK):
        raise CannotServe(f"{setting}: {program} cannot be run; chmod +x {program}")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise CannotServe(
            f"{setting}: others could change {program}, which runs with the service's rights; "
            f"chown it to root and: chmod go-w {program}"
        )
