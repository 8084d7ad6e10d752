"""`make bench`: runs the benchmarks one after the other, each in a process of its own.

A process each, because memory, the garbage collector and warm caches of one would colour the next.
Each prints its figures and fails when a published limit is broken.
"""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec

BENCHMARKS = ("cycle", "scale", "simulate", "store", "launch", "ingest", "load", "hostile")


def main(argv: Sequence[str]) -> int:
    """Names of benchmarks, all of them by default; what follows `--` goes to each."""
    names, arguments = _split(argv)
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        print(f"no benchmark {unknown[0]!r}; there are: {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    failed = [name for name in names or BENCHMARKS if not _passes(name, arguments)]
    print(f"\nfailed: {', '.join(failed)}" if failed else "\nall benchmarks within their limits")
    return 1 if failed else 0


def _split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return list(argv), []
    border = list(argv).index("--")
    return list(argv[:border]), list(argv[border + 1 :])


def _passes(name: str, arguments: Sequence[str]) -> bool:
    print(f"\n== {name}", flush=True)
    module = f"benchmarks.{name}"
    if find_spec(module) is None:
        print(f"{module} is missing", file=sys.stderr)
        return False
    call = f"import sys; from {module} import main; sys.exit(main(sys.argv[1:]))"
    return subprocess.run([sys.executable, "-c", call, *arguments], check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
