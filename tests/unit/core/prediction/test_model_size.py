"""Sizes of models: the table first, then the name, then the default."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.core.prediction.model_size import (
    Requirement,
    SizeSource,
    SizeTable,
    bits_of,
    key_of,
    learned_size,
    model_of,
    parameters_of,
    size_of,
)

BILLION = 1_000_000_000
TABLE = SizeTable(
    Requirement(700),
    (
        ("qwen2.5-3b-inst", Requirement(500)),
        ("qwen2.5-*", Requirement(1000)),
        ("qwen2.5-vl-*", Requirement(2000, 40_960)),
    ),
)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("qwen2.5-7b-inst", 7),
        ("Llama-3.1-70B", 70),
        ("mixtral-8x7b", 56),
        ("phi-1.5b", 1.5),
        ("opt-125m", 0.125),
        ("switch-1.6t", 1600),
        ("qwen3-30b-a3b", 30),
        ("deepseek_67b_chat", 67),
    ],
)
def test_the_name_tells_the_parameters(name, billions):
    assert parameters_of(name) == billions * BILLION


@pytest.mark.parametrize("name", ["large", "phi-3-mini-4k", "gpt2", "x-8bit", "v2b3", "0b"])
def test_other_numbers_are_no_parameters(name):
    assert parameters_of(name) is None


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        ("x-7b-fp32", 32),
        ("x-7b-bf16", 16),
        ("x-7b-int8", 8),
        ("x-7b-8bit", 8),
        ("x-7b-fp8", 8),
        ("x-7b-awq", 4),
        ("x-7b-GPTQ-Int4", 4),
        ("x-7b.Q4_K_M", 4),
        ("x-7b-w4a16", 4),
        ("x-7b-q5_0", 5),
        ("x-7b", None),
        ("interest4u", None),
    ],
)
def test_the_name_tells_the_bits_of_a_weight(name, bits):
    assert bits_of(name) == bits


def test_the_models_own_line_goes_before_a_pattern():
    size = size_of("qwen2.5-3b-inst", TABLE, 81_920)
    assert (size.requirement.gpu_millis, size.source) == (500, SizeSource.TABLE)


def test_of_several_patterns_the_most_particular_decides():
    size = size_of("Qwen/Qwen2.5-VL-7B", TABLE, 81_920)
    assert size.requirement == Requirement(2000, 40_960)
    assert (size.source, size.matched) == (SizeSource.PATTERN, "qwen2.5-vl-*")


def test_beyond_the_table_the_name_is_reckoned_with_its_arithmetic():
    size = size_of("llama-70b-int4", TABLE, 81_920)
    assert size.source is SizeSource.ESTIMATE
    assert size.requirement.gpu_millis == 490
    assert size.steps == (
        "70 billion parameters x 4 bits (by its name) = 33379 MiB",
        "33379 MiB + 20% for activations and caches = 40055 MiB",
        "40055 MiB on GPUs of 81920 MiB = 0.49 GPU",
    )


def test_what_one_gpu_cannot_hold_gets_whole_ones():
    assert size_of("llama-70b", TABLE, 81_920).requirement.gpu_millis == 2000
    assert size_of("llama-70b", TABLE, 24_576).requirement.gpu_millis == 7000


def test_the_smallest_share_is_a_tenth():
    assert size_of("opt-125m", TABLE, 81_920).requirement.gpu_millis == 100


def test_shares_come_in_the_steps_of_the_machine():
    assert size_of("llama-70b-int4", TABLE, 81_920, 250).requirement.gpu_millis == 500


def test_a_name_that_tells_nothing_gets_the_default():
    size = size_of("large", TABLE, 81_920)
    assert (size.requirement, size.source) == (Requirement(700), SizeSource.DEFAULT)


def test_without_gpus_to_reckon_for_the_default_holds():
    assert size_of("llama-70b", TABLE, 0).source is SizeSource.DEFAULT


def test_past_runs_count_with_a_margin():
    size = learned_size(40_000, 3, 81_920)
    assert size is not None
    assert size.requirement.gpu_millis == 540
    assert size.steps[0] == "highest peak of 3 past runs: 40000 MiB"
    assert learned_size(0, 0, 81_920) is None


@pytest.mark.parametrize(
    ("argv", "model"),
    [
        (["python", "x.py", "--llm", "a-7b"], "a-7b"),
        (["x.py", "--model=b"], "b"),
        (["x.py", "--model", "b", "--llm", "a"], "a"),
        (["x.py", "--model", "--other"], None),
        (["x.py", "--model"], None),
        (["x.py", "--models", "b"], None),
    ],
)
def test_the_model_is_what_the_command_names(argv, model):
    assert model_of(argv) == model


def test_one_model_has_one_key_however_it_is_written():
    assert key_of("Qwen/Qwen2.5-7B") == key_of("/models/qwen2.5-7b/") == "qwen2.5-7b"


@given(st.text(max_size=40), st.integers(1, 200_000))
def test_every_name_has_a_size_that_can_be_asked_for(name, memory):
    millis = size_of(name, TABLE, memory).requirement.gpu_millis
    assert millis >= 10
    assert millis % 10 == 0
