"""The build's own step: the Python code of the .proto files, for wheels and editable installs."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = ("tgpu/wire/scheduler.proto",)
MADE = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")


class ProtoBuildHook(BuildHookInterface):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        source = Path(self.root, "src")
        generate(source)
        # They are ignored by git, and hatchling leaves such files out unless told otherwise.
        build_data["artifacts"] += [
            f"/src/{proto.removesuffix('.proto')}{ending}" for proto in PROTOS for ending in MADE
        ]


def generate(source: Path) -> None:
    """Run protoc beside each .proto file under `source`."""
    from grpc_tools import protoc

    standard = files("grpc_tools") / "_proto"
    outputs = [f"--{kind}_out={source}" for kind in ("python", "pyi", "grpc_python")]
    for proto in PROTOS:
        command = ["protoc", f"-I{source}", f"-I{standard}", *outputs, str(source / proto)]
        if protoc.main(command):
            raise RuntimeError(f"protoc could not translate {proto}")
