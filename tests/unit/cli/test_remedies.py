"""What `tgpu why` tells people to type can be typed."""

import shlex
from collections import defaultdict

import pytest
import typer
from typer.core import TyperGroup

from tgpu.api.translate.sentences import reason_model
from tgpu.cli.main import build_command
from tgpu.core.model.reasons import Reason, ReasonCode

# Whatever a sentence may want to know.
FACTS: defaultdict[str, int | str] = defaultdict(
    lambda: 1,
    jobs="7, 8",
    cause="job 7 failed",
    tenant="research",
    queue="night",
    provider="ldap",
    resource="gpus",
    gpu_type="A100",
    types="H100",
    node="n0",
)


class AnyReason(Reason):
    def fact(self, name: str) -> int | str:
        return FACTS[name]


def parse(line: str) -> None:
    """Read a command line as tgpu would, without doing anything."""
    program, *words = shlex.split(line)
    assert program == "tgpu"
    group = build_command()
    context = typer.Context(group)
    while True:
        name, found, words = group.resolve_command(context, words)
        assert found is not None
        if not isinstance(found, TyperGroup):
            found.make_context(name, words, parent=context)
            return
        group = found


@pytest.mark.parametrize("code", list(ReasonCode))
def test_every_remedy_is_a_command_that_exists(code):
    remedy = reason_model(AnyReason(code), "12.3").remedy
    parse(remedy)


def test_a_command_that_does_not_exist_would_be_noticed():
    for line in ("tgpu tenants alter x", "tgpu queues change x --on", "tgpu tenants change"):
        with pytest.raises(typer.TyperException):
            parse(line)
