"""What the build makes of other files here: that it is up to date, and in what is given out."""

import subprocess
import sys
import tarfile
from pathlib import Path
from zipfile import ZipFile

from tests.meta.repository import GENERATED, ROOT, name_of, tracked_files

SCRIPT = ROOT / "scripts" / "sync_client.py"
CLIENTS = ROOT / "src" / "tgpu" / "client"


def translate(source: Path, made: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), str(source), str(made)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_synchronous_client_is_what_the_asynchronous_one_makes(tmp_path):
    made = tmp_path / "http.py"
    assert translate(CLIENTS / "aio.py", made).returncode == 0
    stale = "client/http.py is older than client/aio.py: run `make install`"
    assert made.read_text() == (CLIENTS / "http.py").read_text(), stale


def test_what_no_rule_makes_synchronous_is_refused_and_nothing_is_written(tmp_path):
    source, made = tmp_path / "aio.py", tmp_path / "http.py"
    source.write_text('"""Head."""\n\nawait asyncio.sleep(1)\nawait asyncio.gather(a, b)\n')
    run = translate(source, made)
    assert run.returncode == 1
    assert run.stderr == "aio.py: no rule makes this synchronous: asyncio.gather(a, b)\n"
    assert not made.exists()


def test_no_generated_file_is_kept():
    assert {name_of(path) for path in tracked_files()} & GENERATED == set()


def test_a_fresh_clone_builds_an_archive_that_builds_a_wheel_with_all_of_it(tmp_path):
    clone = tmp_path / "clone"
    for path in tracked_files():
        if not name_of(path).startswith(("tests/", "docs/")):
            copy = clone / name_of(path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    (archive,) = built(clone, "sdist", tmp_path)
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "unpacked", filter="data")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    for name in GENERATED:
        (unpacked / name).unlink()
    (wheel,) = built(unpacked, "wheel", tmp_path)
    with ZipFile(wheel) as packed_wheel:
        assert {f"src/{name}" for name in packed_wheel.namelist()} >= GENERATED
        client = packed_wheel.read("tgpu/client/http.py").decode()
    assert client == (CLIENTS / "http.py").read_text()


def built(folder: Path, kind: str, into: Path) -> list[Path]:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into / kind)]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    return list((into / kind).iterdir())
