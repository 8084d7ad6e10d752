"""What only an engine may know stays behind its port: processes, kernel files, users, log files."""

import ast
from pathlib import Path

import pytest

from tests.meta.repository import ROOT, tracked_files

GUARDED = (
    "api",
    "app",
    "cli",
    "client",
    "embedded.py",
    "gateway",
    "journal",
    "notices",
    "report",
    "service",
    "telemetry",
)
WORDS = ("/proc", "/dev/kmsg", "stdout.log", "stderr.log")
MODULES = ("grp", "psutil", "pwd", "subprocess")
# Who knows the machine it runs on, and why. A file that no longer does is taken off.
KNOWS_ITS_MACHINE = {
    "cli/doctor/self_test.py": "starts a service of its own to try it",
    "cli/jobs/edit_in_editor.py": "starts the editor of who types",
    "cli/sessions/screen_sessions.py": "enters a session on the machine of who types",
    "cli/sessions/tmux_sessions.py": "enters a session on the machine of who types",
    "client/autostart.py": "starts the service of the user who calls",
}


def modules() -> dict[str, Path]:
    package = ROOT / "src" / "tgpu"
    found = {}
    for path in tracked_files():
        if path.suffix == ".py" and path.is_relative_to(package):
            name = path.relative_to(package).as_posix()
            if name.partition("/")[0] in GUARDED:
                found[name] = path
    return found


def told(tree: ast.AST) -> set[str]:
    """The words of a module that only an engine should use; what it documents does not count."""
    found = set()
    documents = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found |= {name.name for name in names if name.name in MODULES}
            case ast.ImportFrom(module=str(module)) if module in MODULES:
                found.add(module)
            case ast.Constant(value=str(text)) if id(node) not in documents:
                found |= {word for word in WORDS if word in text}
            case ast.Attribute(attr="find_logs"):
                found.add("find_logs")
    return found


def test_only_the_files_on_the_list_know_the_machine() -> None:
    knowing = {name for name, path in modules().items() if told(ast.parse(path.read_text()))}
    assert knowing == set(KNOWS_ITS_MACHINE)


@pytest.mark.parametrize(
    "text",
    [
        "import pwd",
        "import subprocess",
        "from psutil import Process",
        "x = f'/proc/{pid}/stat'",
        "PATH = 'stdout.log'",
        "engine.find_logs(key)",
    ],
)
def test_the_search_finds_what_it_is_there_to_find(text: str) -> None:
    assert told(ast.parse(text))
    assert not told(ast.parse('"""Blocks for as long as /proc takes."""'))


def test_the_packages_that_are_guarded_are_there() -> None:
    assert {name.partition("/")[0] for name in modules()} == set(GUARDED)


def named_nodes(tree: ast.AST) -> list[int]:
    """Lines that name a node in the code."""
    return [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "NodeId"
        and any(isinstance(each, ast.Constant) for each in node.args)
    ]


def test_no_node_is_special_but_where_the_service_s_own_gets_its_name() -> None:
    package = ROOT / "src" / "tgpu"
    naming = {
        path.relative_to(package).as_posix()
        for path in tracked_files()
        if path.suffix == ".py" and path.is_relative_to(package)
        if named_nodes(ast.parse(path.read_text()))
    }
    assert naming == {"app/compose.py"}
    assert named_nodes(ast.parse("if node_id == NodeId('local'): pass"))
