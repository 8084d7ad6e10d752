"""A real PostgreSQL of the tests' own: Debian's, one on PATH, or the one in the pgserver wheel."""

import os
import secrets
import shutil
import signal
from importlib.util import find_spec
from pathlib import Path

import psycopg

from tests.servers.process import CannotStart, Program, free_port, new_folder, some_user

SUPERUSER = "postgres"


def find_binaries() -> Path:
    """The folder of the newest PostgreSQL there is."""
    debian = [path for path in Path("/usr/lib/postgresql").glob("*/bin") if _is_server(path)]
    if debian:
        return max(debian, key=lambda path: float(path.parent.name))
    on_path = shutil.which("postgres")
    if on_path is not None:
        return Path(on_path).resolve().parent
    wheel = find_spec("pgserver")
    if wheel is not None and wheel.origin is not None:
        binaries = Path(wheel.origin).parent / "pginstall" / "bin"
        if _is_server(binaries):
            return binaries
    raise CannotStart(
        "no PostgreSQL: on Debian, apt-get install postgresql; or pip install pgserver"
    )


def _is_server(folder: Path) -> bool:
    return (folder / "postgres").exists() and (folder / "initdb").exists()


class PostgresServer:
    """Reached over loopback with a password, or through a Unix socket without."""

    def __init__(self) -> None:
        self._binaries = find_binaries()
        user = some_user("postgres", "nobody")
        self._program = Program(new_folder(user), user)
        self.folder = self._program.folder
        self.password = secrets.token_hex(8)
        self.port = free_port()
        self._databases = 0

    def create(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o644)  # for the server's user; the folder is closed to others
        initdb: list[str | Path] = [self._binaries / "initdb", "--pgdata", self.folder / "data"]
        # The C locale: tests must not depend on the ones that are installed.
        initdb += ["--username", SUPERUSER, "--encoding=UTF8", "--no-locale", "--no-sync"]
        initdb += ["--auth-local=trust", "--auth-host=scram-sha-256", "--pwfile", password_file]
        self._program.run(initdb)

    def start(self, *, fsync: str = "off") -> None:
        options = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.folder),
            # Only a loss of power needs it, and no test takes the power away.
            "fsync": fsync,
            "shared_buffers": "64MB",
            "max_connections": "40",
            "log_min_messages": "fatal",
        }
        command: list[str | Path] = [self._binaries / "postgres", "-D", self.folder / "data"]
        command += ["-p", str(self.port)]
        for name, value in options.items():
            command += ["-c", f"{name}={value}"]
        self._program.start(command, self._answers)

    def stop(self) -> None:
        """At once: connections end, what was committed stays."""
        self._program.stop(signal.SIGINT)

    def crash(self) -> None:
        """As a power cut would: nothing is tidied up, recovery follows at the next start."""
        self._program.stop(signal.SIGQUIT)

    def freeze(self) -> None:
        """It keeps its connections, accepts new ones, and answers none."""
        for pid in self._processes():
            os.kill(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        for pid in self._processes():
            os.kill(pid, signal.SIGCONT)

    def _processes(self) -> list[int]:
        """The server and those that it forked for its connections."""
        assert self._program.process is not None
        pid = self._program.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return [pid, *map(int, children)]

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        self.crash()  # nothing is kept, so nothing need be written back
        self._program.remove()

    def url(self, database: str = "postgres", *, password: str | None = None) -> str:
        """Over loopback, as the service's own user would connect."""
        secret = self.password if password is None else password
        return f"postgresql://{SUPERUSER}:{secret}@127.0.0.1:{self.port}/{database}"

    def socket_url(self, database: str = "postgres") -> str:
        return f"postgresql://{SUPERUSER}@/{database}?host={self.folder}&port={self.port}"

    def execute(self, sql: str, database: str = "postgres") -> list[tuple]:
        """As an administrator beside the service."""
        with psycopg.connect(self.socket_url(database), autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """The name of an empty database."""
        self._databases += 1
        name = f"test_{self._databases}"
        self.execute(f"CREATE DATABASE {name}")
        return name

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True
