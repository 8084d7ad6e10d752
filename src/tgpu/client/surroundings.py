"""The default service: that of TGPU_URL, else the user's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tgpu.client.personal import PersonalService
from tgpu.client.target import Target, parse_target

# The first that is set counts. The second is what `serve` itself reads.
_DATA_DIR_VARIABLES: Final = ("TGPU_DATA_DIR", "GPU_SCHEDULER_DATA_DIR")


@dataclass(frozen=True, slots=True)
class Surroundings:
    target: Target
    api_key: str | None  # for this target only: no other service is shown it
    ca_file: str | None  # certificate authorities to trust instead of the system's
    tenant: str | None = None  # of jobs that name none


def surroundings(environ: Mapping[str, str] | None = None) -> Surroundings:
    """From the environment, this process's own by default. ValueError for a bad TGPU_URL."""
    from tgpu.settings.process import process_environ

    variables = process_environ() if environ is None else environ
    url, key = variables.get("TGPU_URL"), variables.get("TGPU_API_KEY")
    target = parse_target(url) if url else PersonalService(data_dir(variables)).target()
    tenant = variables.get("TGPU_TENANT") or None
    return Surroundings(target, key or None, variables.get("TGPU_CA_FILE") or None, tenant)


def data_dir(environ: Mapping[str, str]) -> Path:
    """Where this user's own service lives; always absolute."""
    from tgpu.settings.process import default_data_dir

    named = next((environ[name] for name in _DATA_DIR_VARIABLES if environ.get(name)), None)
    return Path(named).expanduser().absolute() if named else default_data_dir(environ)
