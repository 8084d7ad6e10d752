"""Calls by processes of other users of this machine. Only root can make those."""

import json
import os
import pwd
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest

AS_ROOT = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root can be several users; run the tests as root"
)
NOBODY = pwd.getpwnam("nobody")
GAMES = pwd.getpwnam("games")

_HEAD = """
import json, sys
arguments = json.loads(sys.argv[1])
"""
_HTTP = (
    _HEAD
    + """
import http.client
host, port, method, path, body, headers = arguments
connection = http.client.HTTPConnection(host, port, timeout=30)
content = None if body is None else json.dumps(body)
connection.request(method, path, content, {"Content-Type": "application/json", **headers})
answer = connection.getresponse()
print(json.dumps([answer.status, answer.read().decode()]))
"""
)
_GRPC = (
    _HEAD
    + """
import grpc
from google.protobuf.json_format import MessageToDict, ParseDict
from tgpu.wire import scheduler_pb2 as pb, scheduler_pb2_grpc as rpc
address, method, body, metadata = arguments
with grpc.insecure_channel(address, options=(("grpc.enable_http_proxy", 0),)) as channel:
    request = ParseDict(body, getattr(pb, method + "Request")())
    call = getattr(rpc.SchedulerServiceStub(channel), method)
    try:
        answer = call(request, metadata=tuple(map(tuple, metadata)), timeout=30)
        print(json.dumps(["OK", MessageToDict(answer, preserving_proto_field_name=True)]))
    except grpc.RpcError as error:
        print(json.dumps([error.code().name, error.details()]))
"""
)


def call_as(
    uid: int,
    address: tuple[str, int],
    method: str,
    path: str,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    """Status and answer of an HTTP call by a process of that user."""
    status, text = _run(uid, _HTTP, [*address, method, path, body, dict(headers or {})])
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def grpc_call_as(uid: int, address: str, method: str, body: Any) -> tuple[str, Any]:
    """Code and answer (or details) of a gRPC call by a process of that user."""
    code, answer = _run(uid, _GRPC, [address, method, body, []])
    return code, answer


def running_as(uid: int) -> list[str]:
    """What to put before a command so that it runs as that user, able to read our sources."""
    able = ["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *able]


def _run(uid: int, program: str, arguments: list[Any]) -> list[Any]:
    done = subprocess.run(
        [*running_as(uid), sys.executable, "-c", program, json.dumps(arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found
