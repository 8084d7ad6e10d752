"""Whose fault a failure was, from what was found."""

import pytest

from tgpu.core.model.cause import (
    NO_EVIDENCE,
    Evidence,
    Fault,
    Finding,
    KernelKill,
    how_it_ended,
    of_exit,
    of_hardware,
    sentence,
)

CUDA_LINES = [
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has …",
    "RuntimeError: CUDA error: out of memory",
    "F tensorflow: failed to allocate: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes",
    "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
    "ggml_cuda: cudaMalloc failed: out of memory",
    "OOM when allocating tensor with shape[1,2] on /job:localhost/device:GPU:0",
]
HOST_LINES = [
    "MemoryError",
    "numpy._core._exceptions._ArrayMemoryError: Unable to allocate; MemoryError",
    "terminate called after throwing an instance of 'std::bad_alloc'",
    "OSError: [Errno 12] Cannot allocate memory",
    "RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed.",
]
TRACEBACK = 'Traceback (most recent call last):\n  File "x.py", line 1\n'


def found(tail: str = "", code: int = 1, hardware: str | None = None) -> Finding:
    return of_exit(code, 42, hardware, Evidence(tail))


@pytest.mark.parametrize("line", CUDA_LINES)
def test_every_way_of_saying_that_gpu_memory_ran_out_is_known(line: str) -> None:
    assert found(f"epoch 3\n{line}\nbye\n") == Finding(Fault.CUDA_OUT_OF_MEMORY, line)


@pytest.mark.parametrize("line", HOST_LINES)
def test_every_way_of_saying_that_main_memory_ran_out_is_known(line: str) -> None:
    assert found(f"epoch 3\n{line}\n").fault is Fault.HOST_OUT_OF_MEMORY


def test_a_limit_that_ended_it_counts_more_than_its_log() -> None:
    evidence = Evidence("CUDA out of memory", memory_limit_bytes=512 << 20)
    finding = of_exit(137, 1, None, evidence)
    assert finding == Finding(Fault.HOST_OUT_OF_MEMORY, "the whole job may use 512 MiB")
    assert of_exit(137, 1, "Xid 79", evidence).fault is Fault.XID


def test_the_last_word_counts() -> None:
    assert found("MemoryError\nCUDA out of memory").fault is Fault.CUDA_OUT_OF_MEMORY
    assert found("CUDA out of memory\nMemoryError").fault is Fault.HOST_OUT_OF_MEMORY


def test_without_a_sign_it_is_the_program_s_own_error() -> None:
    assert of_exit(1, 42, None, NO_EVIDENCE) == Finding(Fault.USER_ERROR)


def test_a_traceback_gives_the_name_of_its_exception_and_not_what_it_says() -> None:
    assert found(f"{TRACEBACK}ValueError: bad key sk-12345\n").detail == "ValueError"


def test_exceptions_about_modules_names_and_files_are_told_whole() -> None:
    line = "ModuleNotFoundError: No module named 'torch'"
    assert found(f"{TRACEBACK}{line}\n").detail == line


def test_a_word_without_a_traceback_proves_nothing() -> None:
    assert found("ValueError: seen, and gone on\n").detail == ""


@pytest.mark.parametrize(
    ("hardware", "fault"),
    [
        ("GPU 3: Xid 79, fell off the bus", Fault.XID),
        ("GPU 3: lost", Fault.LOST_GPU),
        ("GPU 3: memory errors that could not be corrected: 2", Fault.LOST_GPU),
    ],
)
def test_what_its_gpus_had_counts_more_than_what_the_log_says(hardware: str, fault: Fault) -> None:
    assert found("CUDA out of memory", hardware=hardware).fault is fault
    assert of_hardware(hardware).fault is fault


def test_no_log_makes_a_failure_the_machine_s() -> None:
    tail = "Xid 79, fell off the bus\nGPU is lost\nthe machine was rebooted\n"
    assert found(tail).fault is Fault.USER_ERROR


@pytest.mark.parametrize(
    ("pid", "ago_ms", "fault"),
    [
        (42, 3_600_000, Fault.HOST_OUT_OF_MEMORY),  # itself
        (77, 500, Fault.HOST_OUT_OF_MEMORY),  # a child of its, just now
        (77, 3_600_000, Fault.USER_ERROR),  # somebody else, long ago
    ],
)
def test_a_kill_by_the_kernel_is_its_own_or_of_this_moment(
    pid: int, ago_ms: int, fault: Fault
) -> None:
    kill = KernelKill(pid, ago_ms, "Out of memory: Killed process")
    assert of_exit(137, 42, None, Evidence("", (kill,))).fault is fault


def test_who_was_not_killed_did_not_die_of_it() -> None:
    kill = KernelKill(42, 0, "Out of memory: Killed process 42")
    assert of_exit(1, 42, None, Evidence("", (kill,))).fault is Fault.USER_ERROR


@pytest.mark.parametrize(
    ("finding", "text"),
    [
        (Finding(Fault.USER_ERROR), "exit code 1"),
        (Finding(Fault.USER_ERROR, "ValueError: x"), "exit code 1: ValueError: x"),
        (Finding(Fault.CUDA_OUT_OF_MEMORY, "a"), "out of GPU memory (exit code 1): a"),
        (Finding(Fault.HOST_OUT_OF_MEMORY, "a"), "out of main memory (exit code 1): a"),
        (Finding(Fault.XID, "GPU 3: Xid 79"), "GPU 3: Xid 79 (exit code 1)"),
    ],
)
def test_every_finding_is_a_sentence(finding: Finding, text: str) -> None:
    assert sentence(finding, "exit code 1") == text


def test_a_detail_is_one_short_line_without_control_characters() -> None:
    detail = found("\x1b[31mCUDA out of memory" + "x" * 5000).detail
    assert len(detail) == 200
    assert detail.isprintable()


@pytest.mark.parametrize(
    ("exit_code", "signal", "told"),
    [
        (1, None, "exit code 1"),
        (126, None, "exit code 126 (cannot be executed)"),
        (127, None, "exit code 127 (command not found)"),
        (137, None, "exit code 137 (signal 9, KILL)"),
        (143, None, "exit code 143 (signal 15, TERM)"),
        (200, None, "exit code 200"),
        (137, 9, "signal 9 (KILL)"),
        (162, 34, "signal 34"),
    ],
)
def test_numbers_are_told_with_what_they_mean(exit_code, signal, told) -> None:
    assert how_it_ended(exit_code, signal) == told
