"""Names that say nothing become drawers for everything."""

import ast
import re

from tests.meta.repository import ROOT, name_of, texts, tracked_files

NOTHING_NAMES = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "managers"}
# Names that others have in their programs. The list may only become shorter.
NAMED_TWICE = {
    # The client raises what the service refused with.
    "NotFound": ["client/errors.py", "core/errors.py"],
    "Conflict": ["client/errors.py", "core/errors.py"],
    "Unavailable": ["client/errors.py", "core/errors.py"],
    # Schemas in the description of /api/v1.
    "UsageModel": ["wire/tenants_v1.py", "wire/v1.py"],
}
CODE_FOLDERS = ("src", "tests", "benchmarks", "examples")


def test_no_module_has_a_name_that_says_nothing():
    modules = [path.relative_to(ROOT) for path in tracked_files() if path.suffix == ".py"]
    words = {m: {*m.with_suffix("").parts, *m.stem.split("_")} for m in modules}
    assert [str(module) for module in modules if words[module] & NOTHING_NAMES] == []


def test_every_module_of_the_package_says_what_lives_there():
    silent = [
        name_of(path)
        for path in tracked_files()
        if path.suffix == ".py"
        and path.is_relative_to(ROOT / "src")
        and ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert silent == []


def test_every_folder_of_tests_is_a_package():
    folders = {p.parent for p in tracked_files() if p.suffix == ".py" and "tests" in p.parts}
    assert [name_of(f) for f in sorted(folders) if not (f / "__init__.py").exists()] == []


def test_the_name_on_pypi_that_belongs_to_somebody_else_is_never_asked_for():
    asked = re.compile(r"\binstall '?gpu[-_]scheduler")
    assert [path for path, text in texts().items() if asked.search(text)] == []


def test_a_public_class_has_a_name_of_its_own():
    homes: dict[str, list[str]] = {}
    for path in tracked_files():
        if path.suffix == ".py" and path.is_relative_to(ROOT / "src"):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(name_of(path))
    assert {name: found for name, found in homes.items() if len(found) > 1} == {
        name: [f"src/tgpu/{home}" for home in found] for name, found in NAMED_TWICE.items()
    }
