"""Nothing in the repository depends on the machine it was written on."""

import re

import pytest

from tests.meta.repository import name_of, texts

# Written apart, so that this file does not find itself.
MACHINE_PATHS = re.compile("|".join(("/wor" + "k/", "/ro" + "ot/", r"/Use" + r"rs/\w")))
REGISTRY_HOSTS = re.compile(
    "|".join(
        re.escape(host)
        for host in (
            "pyp" + "i.org",
            "python" + "hosted.org",
            "registry.np" + "mjs",
            "dock" + "er.io",
        )
    )
)


def places(pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name_of(path)}:{number}: {line.strip()[:80]}"
        for path, text in texts().items()
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]


@pytest.mark.parametrize(
    "pattern", [MACHINE_PATHS, REGISTRY_HOSTS], ids=["machine paths", "registry hosts"]
)
def test_no_file_names_this_machine_or_a_package_registry(pattern):
    assert places(pattern) == []
