import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.devices.gpu_type import UNKNOWN_TYPE, short_type


@pytest.mark.parametrize(
    ("product_name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H100 PCIe", "H100"),
        ("NVIDIA H100 NVL", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA B200", "B200"),
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("NVIDIA A100 80GB PCIe", "A100"),
        ("A100-PCIE-40GB", "A100"),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", "A100"),
        ("GRID A100-10C", "A100"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("Tesla T4", "T4"),
        ("Tesla V100-SXM2-16GB", "V100"),
        ("Tesla V100S-PCIE-32GB", "V100S"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("Tesla K80", "K80"),
        ("NVIDIA GeForce RTX 4090", "RTX4090"),
        ("NVIDIA GeForce RTX 4090 D", "RTX4090D"),
        ("NVIDIA GeForce RTX 3080 Ti", "RTX3080Ti"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", "RTX4070TiSUPER"),
        ("NVIDIA GeForce RTX 3080 Laptop GPU", "RTX3080Laptop"),
        ("GeForce GTX 1080 Ti", "GTX1080Ti"),
        ("NVIDIA TITAN RTX", "TITANRTX"),
        ("NVIDIA TITAN V", "TITANV"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000Ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTXPRO6000"),
        ("Quadro RTX 8000", "RTX8000"),
        ("Quadro GV100", "GV100"),
        ("NVIDIA T1000 8GB", "T1000"),
        ("NVIDIA CMP 170HX", "CMP170HX"),
        ("Orin (nvgpu)", "Orin"),
        ("NVIDIA", UNKNOWN_TYPE),
        ("", UNKNOWN_TYPE),
    ],
)
def test_a_product_name_has_a_short_type(product_name: str, expected: str) -> None:
    assert short_type(product_name) == expected


@given(st.text())
def test_any_name_gives_one_word_that_a_job_can_ask_for(product_name: str) -> None:
    short = short_type(product_name)
    assert short
    assert not any(character.isspace() or character in ",;:" for character in short)
