"""A settings file to start from, with every key explained; it loads back to the defaults."""

import json
from itertools import groupby
from typing import Final, Literal

from tgpu.settings.keys import Key, all_keys

SAMPLE_FORMATS: Final = ("yaml", "json", "toml")

_HEAD: Final = "Settings of tgpu. Every value here is the default."
_ORDER: Final = "Flags override environment variables, which override this file."
_TENANTS: Final = {
    "yaml": [
        "tenants:",
        "  - tenant_id: vision",
        "    max_gpus: 4",
        "    max_gpus_by_type: {A100: 2}",
        "    cohort: research",
        "    budget: {gpu_hours: 500, window: month, action: hold}",
    ],
    "toml": [
        "[[tenants]]",
        'tenant_id = "vision"',
        "max_gpus = 4",
        "max_gpus_by_type = { A100 = 2 }",
        'cohort = "research"',
        'budget = { gpu_hours = 500, window = "month", action = "hold" }',
    ],
}
_NOTICES: Final = {
    "yaml": [
        "notices:",
        "  - kind: mail",
        "    host: smtp.example.org",
        "    sender: tgpu@example.org",
        "    to: [ops@example.org]",
        "    events: [failure, gpu]",
    ],
    "toml": [
        "[[notices]]",
        'kind = "mail"',
        'host = "smtp.example.org"',
        'sender = "tgpu@example.org"',
        'to = ["ops@example.org"]',
        'events = ["failure", "gpu"]',
    ],
}
_MAP: Final = {
    "yaml": [
        "map:",
        "  - group: vision-team",
        "    tenants: [vision]",
        "  - default: true",
        "    tenants: [guests]",
    ],
    "toml": [
        "[[auth.map]]",
        'group = "vision-team"',
        'tenants = ["vision"]',
        "[[auth.map]]",
        "default = true",
        'tenants = ["guests"]',
    ],
}
# Of sections, shown by an example.
_LISTS: Final = {"auth.map": _MAP, "tenants": _TENANTS, "notices": _NOTICES}
_EXAMPLES: Final = {  # what to write where there is no default, or it depends on the machine
    "data_dir": "~/.local/share/tgpu",
    "api.socket": "~/.local/share/tgpu/service.sock",
    "api.tls_cert": "/etc/tgpu/certificate.pem",
    "api.tls_key": "/etc/tgpu/key.pem",
    "auth.local_users": True,
    "auth.jwt_secret_file": "/etc/tgpu/jwt.secret",
    "auth.jwt_jwks_file": "/etc/tgpu/jwks.json",
    "database.path": "~/.local/share/tgpu/tgpu.db",
    "database.url": "postgresql://tgpu:secret@db.example.org:5432/gpu_scheduler",
    "database.host": "db.example.org",
    "database.user": "tgpu",
    "database.password": "secret",
    "devices.expected_gpus": 8,
    "quota.k8s_namespace": "gpu-jobs",
    "quota.slurm_rest_api_url": "http://slurm.example.org:6820",
    "quota.slurm_auth_token": "secret",
    "logging.file": "~/.local/share/tgpu/service.log",
}


def sample(format: str = "yaml") -> str:
    """The whole file as text. ValueError for a format that there is not."""
    match format:
        case "yaml":
            return _yaml()
        case "json":
            return _json()
        case "toml":
            return _toml()
    raise ValueError(f"format {format!r} must be one of {', '.join(SAMPLE_FORMATS)}")


def _yaml() -> str:
    lines = [f"# {_HEAD}", f"# {_ORDER}"]
    for section, keys in groupby(all_keys(), key=lambda key: key.section):
        indent = "  " if section else ""
        lines += ["", f"{section}:"] if section else []
        for key in keys:
            lines += [] if section else [""]
            lines += [f"{indent}{line}" for line in _entry(key, ": ", "yaml")]
    return "\n".join(lines) + "\n"


def _toml() -> str:
    lines = [f"# {_HEAD}", f"# {_ORDER}"]
    # Keys at the top must come before the first table, and none may follow.
    ordered = sorted(all_keys(), key=lambda key: (key.section != "", key.name in _LISTS))
    lists = [key for key in ordered if key.name in _LISTS]
    plain = [key for key in ordered if key.name not in _LISTS]
    for section, keys in groupby(plain, key=lambda key: key.section):
        lines += ["", f"[{section}]"] if section else []
        for key in keys:
            lines += [] if section else [""]
            lines += _entry(key, " = ", "toml")
    for key in lists:
        lines += ["", *_entry(key, " = ", "toml")]
    return "\n".join(lines) + "\n"


def _entry(key: Key, sign: str, format: Literal["yaml", "toml"]) -> list[str]:
    comment = f"# {key.description}"
    if key.name in _LISTS:
        return [comment, *(f"# {line}" for line in _LISTS[key.name][format])]
    if key.default is None:
        return [comment, f"# {key.leaf}{sign}{json.dumps(_EXAMPLES.get(key.name, ''))}"]
    return [comment, f"{key.leaf}{sign}{json.dumps(key.default)}"]


def _json() -> str:
    content: dict[str, object] = {"//": f"{_HEAD} {_ORDER} Keys that begin with // are comments."}
    for key in all_keys():
        place = content
        if key.section:
            place = content.setdefault(key.section, {})  # type: ignore[assignment]  # ours, a dict
        place[f"// {key.leaf}"] = key.description
        place[key.leaf] = [] if key.default == () else key.default
    return json.dumps(content, indent=2) + "\n"
