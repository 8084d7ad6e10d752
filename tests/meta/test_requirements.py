"""The pinned requirements: complete, hashed, and tied to no package index."""

import re
import tomllib

import pytest

from tests.meta.repository import ROOT

PINNED = ["requirements/base.txt", "requirements/build.txt", "requirements/dev.txt"]


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(file: str) -> dict[str, str]:
    """Each pinned name with the lines that belong to it."""
    blocks = re.split(r"\n(?=[A-Za-z0-9])", (ROOT / file).read_text())
    return {canonical(b.split("==")[0]): b for b in blocks if re.match(r"[\w.\-]+==", b)}


def wanted(lines: list[str]) -> set[str]:
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines)
    return {canonical(name[0]) for name in names if name}


@pytest.mark.parametrize("file", PINNED)
def test_the_pinned_files_name_no_index_and_no_host(file):
    text = (ROOT / file).read_text()
    assert re.findall(r"--(?:extra-)?index-url|--trusted-host|--find-links|://", text) == []


@pytest.mark.parametrize("file", PINNED)
def test_every_pin_has_a_hash(file):
    found = pins(file)
    assert len(found) > 10
    assert [name for name, block in found.items() if "--hash=sha256:" not in block] == []


def test_the_base_pins_hold_every_dependency_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert wanted(project["dependencies"]) - pins("requirements/base.txt").keys() == set()


def test_the_dev_pins_hold_every_tool_and_the_build_backend():
    tools = (ROOT / "requirements" / "dev.in").read_text().splitlines()
    assert (
        wanted([line for line in tools if line[:1].isalpha()]) | {"hatchling"}
        <= pins("requirements/dev.txt").keys()
    )


def test_the_build_pins_hold_what_an_editable_install_takes():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert wanted(build) | {"editables"} <= pins("requirements/build.txt").keys()


@pytest.mark.parametrize("file", PINNED[:2])
def test_all_files_pin_the_same_versions(file):
    some, dev = pins(file), pins("requirements/dev.txt")
    versions = {name: block.split()[0] for name, block in some.items()}
    assert {name: dev[name].split()[0] for name in versions} == versions
