"""The Makefile, and the documents that send people to it."""

import re
import subprocess

from tests.meta.repository import ROOT, name_of, pages, texts

MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", MAKEFILE, re.MULTILINE))
EXPECTED = {"install", "run", "test", "check", "smoke", "bench", "ci", "help"}


def test_the_targets_that_people_expect_are_there():
    assert EXPECTED <= TARGETS


def test_every_target_has_a_line_of_help():
    documented = set(re.findall(r"^([a-z][a-z-]*):.*## \S", MAKEFILE, re.MULTILINE))
    assert TARGETS - documented == set()


def test_every_target_is_phony():
    phony = re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert set(" ".join(phony).split()) == TARGETS


def test_make_alone_lists_every_target():
    listed = subprocess.run(
        ["make", "--no-print-directory"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert {line.split()[0] for line in listed.stdout.splitlines()} == TARGETS


def test_running_installs_no_tools_and_testing_brings_them():
    """Nobody who only wants to try it out waits for compilers of types and browsers of APIs."""
    planned = {
        target: subprocess.run(
            ["make", "--no-print-directory", "--dry-run", "VENV=.none", target],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for target in ("run", "check", "install")
    }
    assert "base.txt requirements/build.txt" in planned["run"]
    assert "dev.txt" not in planned["run"]
    assert ".none/bin/tgpu serve" in planned["run"]
    for target in ("check", "install"):
        assert "base.txt requirements/build.txt" in planned[target]
        assert "dev.txt" in planned[target]


def test_the_make_commands_in_documents_and_workflows_exist():
    read = pages() | {
        path: text
        for path, text in texts().items()
        if name_of(path).startswith((".github/", ".ci/", ".pre-commit"))
    }
    unknown = [
        f"{name_of(path)}: make {target}"
        for path, text in read.items()
        for target in re.findall(
            r"(?:`|^|run: |exec |entry: )make ([a-z][a-z-]*)", text, re.MULTILINE
        )
        if target not in TARGETS
    ]
    assert unknown == []


def test_the_readme_says_how_to_run_and_how_to_test():
    readme = (ROOT / "README.md").read_text()
    assert "make run" in readme
    assert "make test" in readme


def test_ci_runs_what_the_readme_says():
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in script.read_text()
