"""A real Redis of the tests' own, without anything on disk."""

import shutil
import signal
import socket

from tests.servers.process import CannotStart, Program, free_port, new_folder


class RedisServer:
    def __init__(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            raise CannotStart("no Redis: on Debian, apt-get install redis-server")
        self._binary = binary
        self._program = Program(new_folder(None))
        self.port = free_port()
        self.socket = self._program.folder / "redis.sock"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def socket_url(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        command = [self._binary, "--port", str(self.port), "--bind", "127.0.0.1"]
        command += ["--unixsocket", str(self.socket), "--save", "", "--appendonly", "no"]
        self._program.start(command, self._answers)

    def stop(self) -> None:
        self._program.stop(signal.SIGTERM)

    def kill(self) -> None:
        self._program.stop(signal.SIGKILL)

    def restart(self) -> None:
        """Empty again, at the same address."""
        self.stop()
        self.start()

    def start_if_down(self) -> None:
        if not self._answers():
            self.start()

    def remove(self) -> None:
        self._program.remove()

    def command(self, *words: str) -> str:
        """One command in Redis's inline form; its answer as it came."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(65536).decode().strip()

    def _answers(self) -> bool:
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False
