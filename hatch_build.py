"""The build's own steps, for wheels and editable installs: code that is made of other files here.

The Python code of the .proto files, and the synchronous client of the asynchronous one.
"""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = ("tgpu/wire/scheduler.proto",)
MADE = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
ASYNC_CLIENT, SYNC_CLIENT = "tgpu/client/aio.py", "tgpu/client/http.py"


class GeneratedCode(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src")
        translate_protos(source)
        script = Path(self.root, "scripts", "sync_client.py")
        clients = [source / ASYNC_CLIENT, source / SYNC_CLIENT]
        subprocess.run([sys.executable, script, *clients], check=True)
        # They are ignored by git, and hatchling leaves such files out unless told otherwise.
        build_data["artifacts"] += [
            f"/src/{proto.removesuffix('.proto')}{ending}" for proto in PROTOS for ending in MADE
        ]
        build_data["artifacts"].append(f"/src/{SYNC_CLIENT}")


def translate_protos(source: Path) -> None:
    """Run protoc beside each .proto file under `source`."""
    from grpc_tools import protoc

    standard = files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={source}" for kind in ("python", "pyi", "grpc_python")]
    for proto in PROTOS:
        command = ["protoc", f"-I{source}", f"-I{standard}", *outputs, str(source / proto)]
        if protoc.main(command):
            raise RuntimeError(f"protoc could not translate {proto}")
