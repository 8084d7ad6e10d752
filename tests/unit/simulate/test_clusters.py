"""Clusters come from files or a few words."""

import pytest

from tgpu.simulate.clusters import read_cluster
from tgpu.simulate.problems import BadInput


def test_a_pool_in_words():
    cluster = read_cluster("3x8")
    (nodes,) = cluster.partitions.values()
    assert (cluster.nodes(), cluster.gpus()) == (3, 24)
    assert [node.node_id for node in nodes] == sorted(node.node_id for node in nodes)


def test_partitions_in_words_with_types():
    cluster = read_cluster("a=2x8xA100,b=1x4xH100")
    assert {name: len(nodes) for name, nodes in cluster.partitions.items()} == {"a": 2, "b": 1}
    assert cluster.partitions["b"][0].gpus[0].gpu_type == "H100"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.csv", "partition,nodes,gpus,type\neast,2,8,A100\nwest,1,4,H100\n"),
        (
            "c.json",
            '[{"partition":"east","nodes":2,"gpus":8,"type":"A100"},'
            '{"partition":"west","nodes":1,"gpus":4,"type":"H100"}]',
        ),
        (
            "c.yaml",
            "nodes:\n- {partition: east, nodes: 2, gpus: 8, type: A100}\n"
            "- {partition: west, gpus: 4, type: H100}\n",
        ),
    ],
)
def test_the_same_cluster_from_each_sort_of_file(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    cluster = read_cluster(str(path))
    assert {part: len(nodes) for part, nodes in cluster.partitions.items()} == {
        "east": 2,
        "west": 1,
    }
    assert cluster.gpus() == 20


def test_the_column_with_the_node_counts_can_be_chosen(tmp_path):
    path = tmp_path / "vcs.csv"
    path.write_text("vc,nodes,gpus_per_node,nodes_tight75\nx,64,8,48\n")
    assert read_cluster(str(path)).nodes() == 64
    assert read_cluster(str(path), "nodes_tight75").nodes() == 48
    with pytest.raises(BadInput, match="line 2, nodes_tight50: this column is missing"):
        read_cluster(str(path), "nodes_tight50")


def test_a_list_of_single_nodes_keeps_their_names_and_sizes(tmp_path):
    path = tmp_path / "openb.csv"
    path.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-7,64000,262144,2,P100\n")
    (node,) = read_cluster(str(path)).partitions[""]
    assert (node.node_id, node.cpu_millis, node.mem_mib, len(node.gpus)) == (
        "n-7",
        64_000,
        262_144,
        2,
    )


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("nodes,type\n2,A100\n", "line 2, gpus: this column is missing"),
        ("nodes,gpus\nmany,8\n", "line 2, nodes: 'many' is not a number"),
        ("nodes,gpus\n0,8\n", "no nodes"),
        ("name,gpus\na,8\na,8\n", "same name"),
        ("nodes,gpus\n99999999,8\n", "too many"),
    ],
)
def test_what_is_wrong_with_a_cluster_is_named(tmp_path, text, match):
    path = tmp_path / "c.csv"
    path.write_text(text)
    with pytest.raises(BadInput, match=match):
        read_cluster(str(path))


def test_words_that_are_no_cluster_say_what_would_be_one():
    with pytest.raises(BadInput, match="100x8"):
        read_cluster("many")


def test_a_file_that_is_no_list_of_nodes_is_refused(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("hello: world\n")
    with pytest.raises(BadInput, match="not a list of nodes"):
        read_cluster(str(path))
    path.write_text("[: broken")
    with pytest.raises(BadInput, match="cannot be read"):
        read_cluster(str(path))
