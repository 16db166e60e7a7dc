"""A server as a process of its own: started with its log in a file, ready when it answers, stopped by its process id.

    (port,) = free_ports(1)
    server = ServerProcess("moto", ["moto_server", "-H", "127.0.0.1", "-p", str(port)], port=port, log=home / "moto.log")
    with server.started(probe=lambda: httpx.get(f"http://127.0.0.1:{port}").is_success):
        ...

An open port is not enough: a server accepts connections before it can work. The probe is a real request.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil

from examples.cluster.errors import ServerFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

LOCALHOST = "127.0.0.1"
# Below the ports that Linux and macOS choose for outgoing connections: one of those would be taken by any connection that another
# process opens before the server starts, or before it is started again.
FIRST_PORT, LAST_PORT = 10_000, 32_000
START_LIMIT = timedelta(seconds=180)
"""No promise about speed: a JVM on a busy machine needs minutes."""
STOP_LIMIT = timedelta(seconds=15)
CHECK_INTERVAL_S = 0.1
CONNECT_LIMIT_S = 5.0
LOG_TAIL_LINES = 40


class ServerProcess:
    """One server, in a session of its own.

    :param name: for messages.
    :param command: the program and its arguments.
    :param port: the port of 127.0.0.1 that it opens; ``None`` for a process without one.
    :param log: its standard output and error are appended to this file.
    :param environment: all of its environment; by default, that of this process.
    :param folder: where it runs; by default, the folder of this process.
    :param user: the name of the user that it runs as; by default, the user of this process.
    :param stop_signal: the signal by which it ends in order.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        port: int | None,
        log: Path,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        user: str | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.port = port
        self.log = log
        self._command = [str(part) for part in command]
        self._environment = environment
        self._folder = folder
        self._user = user
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; the process must have been started."""
        assert self._process is not None, f"{self.name} has not been started"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @contextmanager
    def started(self, probe: Callable[[], object], limit: timedelta = START_LIMIT) -> Iterator[ServerProcess]:
        """Run the server inside of the block; see :meth:`start`."""
        try:
            self.start(probe, limit)
            yield self
        finally:
            self.stop()

    def start(self, probe: Callable[[], object], limit: timedelta = START_LIMIT) -> None:
        """Start the server and wait until it is ready.

        :param probe: a real request. It returns something true when the server is ready; any exception means that it is not yet.
        :raises ServerFailed: the process ended, or was not ready in time; the message has the end of its log.
        """
        self.launch()
        deadline, problem = time.monotonic() + limit.total_seconds(), ""
        while True:
            if not self.is_running:
                raise self._failed(f"ended with exit code {self._exit_code()}")
            try:
                if self._accepts() and probe():
                    return
            except Exception as error:  # noqa: BLE001 - each client has errors of its own; the last one is in the message
                problem = f": {type(error).__name__}: {error}"
            if time.monotonic() > deadline:
                raise self._failed(f"was not ready within {limit.total_seconds():.0f} s{problem}")
            time.sleep(CHECK_INTERVAL_S)

    def launch(self) -> None:
        """Start the process without waiting for it."""
        for folder in (self.log.parent, self._folder):
            if folder is not None:
                folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            as_user: dict[str, Any] = {} if self._user is None else {"user": self._user, "extra_groups": ()}
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                **as_user,
            )

    def stop(self, limit: timedelta = STOP_LIMIT) -> None:
        """End the process in order, after ``limit`` by SIGKILL, and then whatever it has left running."""
        if self._process is None:
            return
        end_process(self._process.pid, self._stop_signal, limit, self._process)

    def _accepts(self) -> bool:
        if self.port is None:
            return True
        with socket.create_connection((LOCALHOST, self.port), CONNECT_LIMIT_S):
            return True

    def _exit_code(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def _failed(self, problem: str) -> ServerFailed:
        tail = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
        return ServerFailed(self.name, problem, self.log, tail)


def end_process(
    pid: int, stop_signal: signal.Signals, limit: timedelta = STOP_LIMIT, child: subprocess.Popen[bytes] | None = None
) -> None:
    """End a process that leads a session, and everything below it.

    :param child: its handle, if it is a child of this process, which has to collect its exit code.
    """
    try:
        leader = psutil.Process(pid)
        below = leader.children(recursive=True)
    except psutil.NoSuchProcess:
        leader, below = None, []
    if leader is not None:
        with suppress(psutil.NoSuchProcess):
            leader.send_signal(stop_signal)
        with suppress(psutil.TimeoutExpired):
            leader.wait(limit.total_seconds())
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    for process in below:  # some have sessions of their own
        with suppress(psutil.NoSuchProcess):
            process.kill()
    if child is not None:
        child.wait()


def environment_without_airflow() -> dict[str, str]:
    """Return the environment of this process without its settings of Airflow and connections."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}


def free_ports(count: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nothing uses."""
    chance = random.SystemRandom()
    with ExitStack() as kept:
        ports: list[int] = []
        while len(ports) < count:
            port = chance.randint(FIRST_PORT, LAST_PORT)
            probe = kept.enter_context(socket.socket())
            with suppress(OSError):
                probe.bind((LOCALHOST, port))
                ports.append(port)
        return ports


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing uses."""
    return free_ports(1)[0]
