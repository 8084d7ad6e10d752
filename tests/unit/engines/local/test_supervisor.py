import subprocess
import sys


def test_the_supervisor_brings_nothing_beyond_a_slice_of_the_standard_library() -> None:
    script = (
        "import sys; before = set(sys.modules); import tgpu.engines.local.startup;"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before};"
        "print(sorted(new - sys.stdlib_module_names));"
        "print(sorted(new & {'asyncio', 'logging', 'subprocess', 'threading'}))"
    )
    output = subprocess.check_output([sys.executable, "-I", "-c", script], text=True)
    assert output.splitlines() == ["['tgpu']", "[]"]
