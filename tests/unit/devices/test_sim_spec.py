from collections import Counter

import pytest

from tgpu.devices.sim_spec import SimGpu, parse_sim_spec

GIB = 1024


def counted(text: str) -> Counter[str]:
    return Counter(gpu.gpu_type for gpu in parse_sim_spec(text).gpus)


def test_a_count_and_a_type_make_that_many_gpus() -> None:
    assert parse_sim_spec("sim:8xA100").gpus == (SimGpu("A100", 80 * GIB),) * 8


def test_types_can_be_mixed_in_order() -> None:
    types = [gpu.gpu_type for gpu in parse_sim_spec("sim:2xA100,1xH100,1xA100").gpus]
    assert types == ["A100", "A100", "H100", "A100"]


def test_memory_can_be_given_per_type() -> None:
    gpus = parse_sim_spec("sim:1xA100:40G,1xT4").gpus
    assert [gpu.memory_mib for gpu in gpus] == [40 * GIB, 16 * GIB]


def test_a_node_has_256_cores_and_2_tib_unless_told_otherwise() -> None:
    spec = parse_sim_spec("sim:1xA100")
    assert (spec.cores, spec.memory_mib) == (256, 2 * 1024 * GIB)


def test_cores_and_memory_of_the_node_can_be_given() -> None:
    spec = parse_sim_spec("sim:4xA100;cores=16;mem=64G")
    assert (len(spec.gpus), spec.cores, spec.memory_mib) == (4, 16, 64 * GIB)


@pytest.mark.parametrize(
    ("gpu_type", "memory_gib"),
    [("V100", 32), ("H100", 80), ("H200", 141), ("L40S", 48), ("RTX4090", 24), ("A6000", 48)],
)
def test_a_known_type_has_its_true_memory(gpu_type: str, memory_gib: int) -> None:
    assert parse_sim_spec(f"sim:1x{gpu_type}").gpus[0].memory_mib == memory_gib * GIB


def test_an_unknown_type_has_24_gib() -> None:
    assert parse_sim_spec("sim:1xX9000").gpus == (SimGpu("X9000", 24 * GIB),)


def test_a_known_type_is_understood_in_any_case() -> None:
    assert counted("sim:1xa100,1xrtx4090") == {"A100": 1, "RTX4090": 1}


@pytest.mark.parametrize(
    ("size", "mib"), [("512M", 512), ("2T", 2 * 1024 * GIB), ("3GiB", 3 * GIB), ("3GB", 3 * GIB)]
)
def test_sizes_have_units(size: str, mib: int) -> None:
    assert parse_sim_spec(f"sim:1xA100:{size}").gpus[0].memory_mib == mib


def test_1024_gpus_are_possible() -> None:
    assert len(parse_sim_spec("sim:1024xT4").gpus) == 1024


@pytest.mark.parametrize(
    ("text", "named", "remedy"),
    [
        ("", "''", "sim:4xA100"),
        ("sim:", "'sim:'", "sim:4xA100"),
        ("8xA100", "'8xA100'", "sim:4xA100"),
        ("sim:A100", "'A100'", "<count>x<type>"),
        ("sim:8", "'8'", "<count>x<type>"),
        ("sim:4xA100,", "''", "<count>x<type>"),
        ("sim:1.5xA100", "'1.5xA100'", "<count>x<type>"),
        ("sim:4x A100", "'4x A100'", "<count>x<type>"),
        ("sim:0xA100", "GPU count 0 ", "1 or more"),
        ("sim:-3xA100", "GPU count -3 ", "1 or more"),
        ("sim:1025xA100", "1025", "at most 1024"),
        ("sim:600xA100,600xH100", "1200", "at most 1024"),
        (f"sim:{'9' * 5000}xA100", "more than 1024", "at most 1024"),
        ("sim:2xA100:40", "'40'", "40G"),
        ("sim:2xA100:0G", "'0G'", "40G"),
        ("sim:2xA100:-1G", "'-1G'", "40G"),
        ("sim:2xA100:", "''", "40G"),
        ("sim:2xA100;cores=0", "cores='0'", "1 or more"),
        ("sim:2xA100;cores=many", "cores='many'", "1 or more"),
        ("sim:2xA100;mem=64", "mem '64'", "40G"),
        ("sim:2xA100;disk=1T", "'disk=1T'", "cores=16 or mem=64G"),
        ("sim:2xA100;", "''", "cores=16 or mem=64G"),
    ],
)
def test_a_bad_spec_is_refused_with_its_value_and_the_remedy(
    text: str, named: str, remedy: str
) -> None:
    with pytest.raises(ValueError, match="GPU spec") as refusal:
        parse_sim_spec(text)
    assert named in str(refusal.value)
    assert remedy in str(refusal.value)
