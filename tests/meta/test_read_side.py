"""Who is outside of the service reads its state through `service.reads`, and changes nothing."""

import ast

import pytest

from tests.meta.repository import ROOT, name_of, tracked_files

_PACKAGE = ROOT / "src" / "tgpu"
_INSIDE = ("service",)  # … and the rest of the package is outside
_SHUT = {"state", "writer"}
# Where a service is at hand under other names than its own.
_CALLS = {"service_of", "_service", "_opened"}


def reaches_in(source: str) -> list[str]:
    """The places where a program reaches for what belongs to the service alone."""
    return [
        f"{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and (node.attr in _SHUT or _is_private(node.attr))
        and (_is_service(node.value) or _is_reads(node.value))
    ]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def _is_service(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _last_name(value.func) in _CALLS
    return _last_name(value).lstrip("_") == "service"


def _is_reads(value: ast.expr) -> bool:
    return _last_name(value).lstrip("_") == "reads"


def _last_name(value: ast.expr) -> str:
    match value:
        case ast.Name(name) | ast.Attribute(attr=name):
            return name
        case _:
            return ""


def test_nobody_outside_touches_the_state_or_the_writer_of_the_service():
    outside = [
        path
        for path in tracked_files()
        if path.suffix == ".py"
        and path.is_relative_to(_PACKAGE)
        and path.relative_to(_PACKAGE).parts[0] not in _INSIDE
    ]
    assert len(outside) > 100
    found = {name_of(path): reaches_in(path.read_text()) for path in outside}
    assert {name: places for name, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "source",
    [
        "service.state.entry(job_id)",
        "self._service.writer.do(decide, ())",
        "service_of(request).state",
        "self._service().state.ledger",
        "self._opened().writer",
        "request.app.state.service.state",
        "service._promises",
        "service.reads._state",
    ],
)
def test_each_way_in_is_found(source):
    assert len(reaches_in(source)) == 1


@pytest.mark.parametrize(
    "source",
    ["service.reads.job(job_id)", "request.app.state.service", "self._service", "stored.state"],
)
def test_what_is_no_way_in_is_left_alone(source):
    assert reaches_in(source) == []
