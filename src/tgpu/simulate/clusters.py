"""Reads clusters: from a file (CSV, JSON, YAML), or from text such as `100x8` or
`a=20x8xA100,b=2x8`."""

import csv
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from tgpu.core.model.ids import NodeId
from tgpu.core.model.node import Gpu, Node
from tgpu.simulate.problems import BadInput, InputProblem
from tgpu.simulate.rows import Refused, whole
from tgpu.simulate.traces import open_text
from tgpu.simulate.world import ONE_POOL, Cluster
from tgpu.text.json_words import json_words, yaml_words

ANY_TYPE: Final = "GPU"  # where nobody says which
_CPU_MILLIS: Final = 256_000  # what a simulated node has unless somebody says
_MEM_MIB: Final = 2_097_152
_MOST_NODES: Final = 1_000_000

_WORDS: Final = re.compile(
    r"(?:(?P<name>[^=,]+)=)?(?P<nodes>\d+)x(?P<gpus>\d+)(?:x(?P<type>[^,]+))?"
)

# Our names of the columns, and what the published clusters call them.
_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "nodes": ("nodes",),
    "gpus": ("gpus", "gpus_per_node", "gpu"),
    "type": ("type", "gpu_type", "model"),
    "partition": ("partition", "vc"),
    "cpu_milli": ("cpu_milli",),
    "cpus": ("cpus",),
    "memory_mib": ("memory_mib",),
    "gpu_memory_mib": ("gpu_memory_mib",),
    "name": ("name", "sn"),
}


def read_cluster(spec: str, nodes_column: str | None = None) -> Cluster:
    """`spec` is a file's name or the cluster in words. `nodes_column` is the column with the
    number of nodes, where a file has several."""
    path = Path(spec)
    if path.exists() and not path.is_dir():
        return _from_rows(path.name, _rows(path), nodes_column)
    parts = [_WORDS.fullmatch(part.strip()) for part in spec.split(",")]
    if any(part is None for part in parts):
        raise BadInput(
            spec,
            [
                InputProblem(
                    1,
                    "",
                    "is neither a file nor a cluster such as NODESxGPUS[xTYPE], as 100x8, or "
                    "PARTITION=NODESxGPUS, as a=20x8,b=2x8",
                    "no cluster",
                )
            ],
        )
    rows = [
        {
            "partition": part["name"] or ONE_POOL,
            "nodes": part["nodes"],
            "gpus": part["gpus"],
            "type": part["type"] or "",
        }
        for part in parts
        if part is not None
    ]
    return _from_rows(spec, list(enumerate(rows, 1)), None)


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    suffixes = [part.lower() for part in path.suffixes]
    if ".csv" in suffixes:
        with open_text(path) as file:
            table = csv.DictReader(file)
            return [(table.line_num, {k: v or "" for k, v in row.items() if k}) for row in table]
    try:
        with open_text(path) as file:
            text = file.read()
        found = json.loads(text) if ".json" in suffixes else yaml.safe_load(text)
    except ValueError as error:
        words = f"cannot be read: {json_words(str(error))}"
        raise BadInput(
            path.name, [InputProblem(getattr(error, "lineno", 1), "", words, "no data")]
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        words = f"cannot be read: {yaml_words(str(error))}"
        raise BadInput(
            path.name, [InputProblem(mark.line + 1 if mark else 1, "", words, "no data")]
        ) from None
    listed: Any = found.get("nodes") if isinstance(found, dict) else found
    if not isinstance(listed, list) or not all(isinstance(row, dict) for row in listed):
        text = "is not a list of nodes: - {nodes: 10, gpus: 8, type: A100}"
        raise BadInput(path.name, [InputProblem(1, "", text, "no data")])
    return [
        (position, {str(k): "" if v is None else str(v) for k, v in row.items()})
        for position, row in enumerate(listed, 1)
    ]


def _from_rows(
    name: str, rows: Iterable[tuple[int, Mapping[str, str]]], nodes_column: str | None
) -> Cluster:
    partitions: dict[str, list[Node]] = {}
    problems: list[InputProblem] = []
    for line, row in rows:
        try:
            partition, nodes = _nodes(row, nodes_column, sum(map(len, partitions.values())))
        except Refused as error:
            problems.append(InputProblem(line, error.column, error.text, error.kind))
            continue
        partitions.setdefault(partition, []).extend(nodes)
    if not problems and not any(partitions.values()):
        problems.append(InputProblem(1, "", "there are no nodes in it", "no data"))
    names = [node.node_id for nodes in partitions.values() for node in nodes]
    if len(set(names)) != len(names):
        problems.append(InputProblem(1, "name", "two nodes have the same name", "duplicate id"))
    if problems:
        raise BadInput(name, problems)
    return Cluster({key: tuple(nodes) for key, nodes in partitions.items()})


def _nodes(row: Mapping[str, str], nodes_column: str | None, before: int) -> tuple[str, list[Node]]:
    def text(column: str) -> str:
        return next((row[name].strip() for name in _NAMES[column] if row.get(name)), "")

    if nodes_column is not None and nodes_column not in row:
        raise Refused(nodes_column, "this column is missing", "missing column")
    count_text = row[nodes_column] if nodes_column is not None else text("nodes") or "1"
    count = whole(nodes_column or "nodes", count_text)
    if before + count > _MOST_NODES:
        raise Refused("nodes", f"more than {_MOST_NODES:,} nodes are too many", "too many")
    if not text("gpus"):
        raise Refused("gpus", "this column is missing: how many GPUs a node has", "missing column")
    gpus = whole("gpus", text("gpus"))
    partition, kind = text("partition"), text("type") or ANY_TYPE
    memory = whole("gpu_memory_mib", text("gpu_memory_mib") or "0")
    cpu = whole("cpu_milli", text("cpu_milli") or "0") or whole("cpus", text("cpus") or "0") * 1000
    made = []
    for number in range(count):
        name = text("name") if text("name") and count == 1 else _name(partition, before + number)
        one = tuple(Gpu(at, f"{name}-{at}", kind, memory) for at in range(gpus))
        mem = whole("memory_mib", text("memory_mib") or "0") or _MEM_MIB
        made.append(Node(NodeId(name), one, cpu or _CPU_MILLIS, mem, simulated=True))
    return partition, made


def _name(partition: str, number: int) -> str:
    """Names sort as the numbers do: of equal nodes the first is taken."""
    return f"{partition or 'node'}-{number:06}"
