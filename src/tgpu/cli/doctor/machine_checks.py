"""More checks of `tgpu doctor`: settings, file system, limits and the programs around us."""

import os
import resource
import shutil
from pathlib import Path
from typing import Final

from tgpu.cli.findings import Check, FindingLevel
from tgpu.cli.serving.systemd import unit_path
from tgpu.devices.control_groups import PROC, GroupTree, memory_tree
from tgpu.host.mounts import MOUNTS, kind_of

# SQLite needs locks and shared memory that these do not give, or not always.
_NETWORK: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "lustre", "gpfs", "beegfs", "ceph", "glusterfs"}
    | {"fuse.sshfs", "fuse.glusterfs", "afs"}
)
_FEW_FILES: Final = 1024  # the service keeps one open for each connection and each job's log


def settings(environ: dict[str, str], config: Path | None = None) -> Check:
    """Those of the environment, what every start takes over, and of a file."""
    from tgpu.settings import SettingsError, load_with_origins

    try:
        loaded = load_with_origins(config, {}, environ)
    except SettingsError as error:
        first = error.problems[0]
        if config is not None and first.startswith(str(config)):
            return Check("settings", FindingLevel.FAIL, first, f"tgpu config check {config}")
        variable = first.partition(":")[0]
        return Check("settings", FindingLevel.FAIL, first, f"unset {variable}, or correct it")
    if loaded.without_effect:
        idle = loaded.without_effect[0]
        finding = f"{idle.origin} is set and has no effect in this version"
        return Check("settings", FindingLevel.WARN, finding, f"unset {idle.origin}")
    if config is not None:
        return Check("settings", FindingLevel.OK, f"{config} and the environment are valid")
    return Check("settings", FindingLevel.OK, "the environment has no invalid settings")


def file_system(path: Path, mounts: Path = MOUNTS) -> Check:
    kind = kind_of(os.path.realpath(path), mounts)
    if kind in _NETWORK:
        finding = f"the data directory is on a network file system ({kind}): the database may break"
        remedy = "set TGPU_DATA_DIR to a directory on a disk of this machine"
        return Check("files", FindingLevel.WARN, finding, remedy)
    return Check(
        "files", FindingLevel.OK, f"the data directory is on a disk of this machine ({kind})"
    )


def open_files(soft: int | None = None) -> Check:
    if soft is None:
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if soft != resource.RLIM_INFINITY and soft < _FEW_FILES:
        finding = f"a process may open {soft} files only: many jobs at once need more"
        return Check(
            "limits", FindingLevel.WARN, finding, f"ulimit -n {_FEW_FILES * 64}; tgpu stop"
        )
    shown = "any number of" if soft == resource.RLIM_INFINITY else f"{soft}"
    return Check("limits", FindingLevel.OK, f"a process may open {shown} files")


def sessions(search_path: str | None = None) -> Check:
    found = [name for name in ("screen", "tmux") if shutil.which(name, path=search_path)]
    if not found:
        finding = "neither GNU screen nor tmux is installed: jobs cannot run in sessions"
        return Check("sessions", FindingLevel.OK, finding)
    options = " or ".join(f"--{name}" for name in found)
    return Check("sessions", FindingLevel.OK, f"jobs can run in sessions: tgpu submit {options}")


def memory_limits(pid: int | None = None, proc: Path = PROC) -> Check:
    """How far a limit on a job's memory reaches, where the service with this pid is."""
    tree = memory_tree(pid, proc)
    if isinstance(tree, GroupTree):
        finding = (
            f"the memory limit applies to the whole job (control groups, version {tree.version})"
        )
        return Check("memory", FindingLevel.OK, finding)
    finding = f"the memory limit applies to each process of a job, not to the whole job: {tree}"
    return Check("memory", FindingLevel.OK, finding, "tgpu service install")


def units(config_home: Path, system_unit: Path | None = None) -> list[Check]:
    """A unit whose program is gone: after an upgrade of Python, or a moved environment."""
    system = system_unit or unit_path(True, config_home)
    found = []
    for path, flag in ((unit_path(False, config_home), "--user"), (system, "--system")):
        program = _program_of(path)
        if program is None:
            continue
        if Path(program).exists():
            found.append(Check("systemd", FindingLevel.OK, f"{path} starts {program}"))
        else:
            finding = f"{path} starts {program}, which does not exist"
            remedy = f"tgpu service install {flag}"
            found.append(Check("systemd", FindingLevel.FAIL, finding, remedy))
    return found


def _program_of(unit: Path) -> str | None:
    try:
        lines = unit.read_text(errors="replace").splitlines()
    except OSError:
        return None
    commands = [line.partition("=")[2].strip() for line in lines if line.startswith("ExecStart=")]
    if not commands or not commands[0]:
        return None
    command = commands[0]
    quoted = command.startswith('"')
    word = command[1:].partition('"')[0] if quoted else command.split()[0]
    return word.replace("%%", "%").replace("$$", "$")
