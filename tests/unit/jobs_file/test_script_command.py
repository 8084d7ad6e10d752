"""The command of a script: its interpreter, and its option --cuda."""

import pytest

from tgpu.jobs_file.script_command import script_command, takes_cuda

TAKES = 'parser.add_argument("--cuda", type=str, default="0")'
FLAG = "parser.add_argument('--cuda', action='store_true', help='use it')"
GPUS = "{TGPU_GPUS}"


@pytest.mark.parametrize(
    ("script", "command"),
    [("a.py", ["python3", "a.py"]), ("a.sh", ["bash", "a.sh"]), ("./a", ["./a"])],
)
def test_a_script_is_run_by_its_interpreter(script, command):
    assert script_command(script, []) == command


def test_in_an_environment_python_is_the_environments_own():
    assert script_command("a.py", ["-x"], in_environment=True) == ["python", "a.py", "-x"]


@pytest.mark.parametrize(
    ("args", "source", "made"),
    [
        (["--cuda", "0"], "", ["--cuda", GPUS]),
        (["--cuda", "0,1", "--x"], TAKES, ["--cuda", GPUS, "--x"]),
        (["--cuda=3"], "", [f"--cuda={GPUS}"]),
        (["--x"], TAKES, ["--x", "--cuda", GPUS]),
        (["--cuda"], TAKES, ["--cuda", GPUS]),
        (["--x"], FLAG, ["--x"]),
        (["--cuda"], FLAG, ["--cuda"]),
        (["--cuda", "--x"], "", ["--cuda", "--x"]),
        (["--cuda-graphs", "1"], "", ["--cuda-graphs", "1"]),
    ],
)
def test_cuda_is_set_to_the_gpus_where_the_script_takes_it(args, source, made):
    assert script_command("a.py", args, source)[2:] == made


def test_a_script_that_only_speaks_of_cuda_does_not_take_it():
    assert not takes_cuda("# run with --cuda 0")
    assert takes_cuda(TAKES)
