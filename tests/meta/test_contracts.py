"""The import contracts name everything that they are about."""

import ast
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.meta.repository import ROOT, tracked_files

_PACKAGE = ROOT / "src" / "tgpu"
# For values, their checks and log lines: of no one adapter.
ANYWHERE = {"msgspec", "pydantic", "pydantic_core", "sortedcontainers", "structlog"}
# Imported by name at run time, which the import linter does not see.
BY_NAME = {"pynvml": "devices/nvml.py", "resvg_py": "report/png.py"}


def contract(name: str) -> dict[str, Any]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (found,) = [c for c in settings["tool"]["importlinter"]["contracts"] if c["name"] == name]
    return dict(found)


def sources() -> list[Path]:
    return [p for p in tracked_files() if p.suffix == ".py" and p.is_relative_to(_PACKAGE)]


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def imported_by_name(tree: ast.AST) -> Iterator[str]:
    """`import_module("x")`, with or without its module before it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            for given in node.args[:1]:
                if isinstance(given, ast.Constant):
                    yield str(given.value)


def test_every_third_party_has_its_place():
    named = set(contract("Third parties stay in their own adapter")["forbidden_modules"])
    assert not named & ANYWHERE
    used = {
        name.partition(".")[0]
        for path in sources()
        for name in imported(ast.parse(path.read_text()))
    }
    others = used - set(sys.stdlib_module_names) - {"tgpu"}
    assert others - named - ANYWHERE == set()
    assert named | ANYWHERE == others | set(BY_NAME), "these are no longer imported"


def test_what_is_imported_by_name_stays_in_its_own_adapter():
    found = {
        name: str(path.relative_to(_PACKAGE))
        for path in sources()
        for name in imported_by_name(ast.parse(path.read_text()))
        if not name.startswith("tgpu.")
    }
    assert found == BY_NAME


@pytest.mark.parametrize(
    ("name", "folder", "shared"),
    [
        ("Policies are independent of each other", "core/policies", {"slots"}),
        (
            "Engines are independent of each other",
            "engines",
            # The port, and what any of them may be made of.
            {
                *("api", "attempt_files", "ballast", "file_reads", "log_files"),
                *("log_piece", "node_processes", "placing"),
            },
        ),
    ],
)
def test_whoever_joins_the_others_is_independent_of_them(name, folder, shared):
    there = {
        path.relative_to(_PACKAGE / folder).parts[0].removesuffix(".py")
        for path in sources()
        if path.is_relative_to(_PACKAGE / folder)
    } - {"__init__"}
    listed = {module.rpartition(".")[2] for module in contract(name)["modules"]}
    assert listed == there - shared
