import json
import os
from pathlib import Path

import pytest

from tgpu.client.personal import PersonalService
from tgpu.client.target import parse_target, unix_target


def announce(data_dir: Path, **facts: object) -> PersonalService:
    (data_dir / "service.json").write_text(json.dumps(facts))
    return PersonalService(data_dir)


def test_the_announced_socket_is_where_the_service_is(tmp_path):
    service = announce(tmp_path, pid=7, version="1", socket="/run/x.sock", url="http://h:1")
    assert service.target() == unix_target(Path("/run/x.sock"))


def test_a_service_without_a_socket_is_reached_over_tcp(tmp_path):
    service = announce(tmp_path, pid=7, version="1", socket=None, url="http://127.0.0.1:8080")
    assert service.target() == parse_target("http://127.0.0.1:8080")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": "x"}', "null", '{"pid":1,"url":"?"}'])
def test_a_broken_announcement_counts_as_none(tmp_path, content):
    (tmp_path / "service.json").write_text(content)
    service = PersonalService(tmp_path)
    assert service.target() == unix_target(service.socket)


def test_a_socket_path_that_the_system_cannot_take_is_replaced_by_a_short_one(tmp_path):
    deep = PersonalService(tmp_path / ("d" * 120))
    assert len(os.fsencode(deep.socket)) <= 107
    assert str(os.getuid()) in str(deep.socket)
    assert deep.socket != PersonalService(tmp_path / ("e" * 120)).socket
