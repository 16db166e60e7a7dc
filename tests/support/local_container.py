"""What the stand-ins for Docker and Kubernetes run instead of a container: its command, as a process of this machine.

Nothing isolates the process: it has this machine's files and programs. Of a container it has the arguments, the environment
without this process's own, the exit code, and both streams. A mount's path in an argument is replaced by the path of its source.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence

STDOUT, STDERR = 1, 2


class LocalContainer:
    """A command that runs at most once.

    :param mounts: the source of each path inside of the container.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], mounts: Mapping[str, str]) -> None:
        self.argv = [_on_this_machine(argument, mounts) for argument in argv]
        self.environment = {"PATH": os.environ["PATH"], **environment}
        self.exit_code: int | None = None
        self.ended = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = threading.Lock()

    @property
    def is_running(self) -> bool:
        return self._process is not None and not self.ended.is_set()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self, on_output: Callable[[int, bytes], None]) -> None:
        """:raises OSError: the program cannot be started."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            self.argv, env=self.environment, stdout=pipe, stderr=pipe, stdin=subprocess.DEVNULL, start_new_session=True
        )
        streams = [(STDOUT, self._process.stdout), (STDERR, self._process.stderr)]
        readers = [threading.Thread(target=_read, args=(number, pipe, on_output)) for number, pipe in streams]
        for reader in readers:
            reader.start()
        threading.Thread(target=self._wait, args=(self._process, readers)).start()

    def stop(self, grace_s: float) -> None:
        """Send SIGTERM, and SIGKILL if the process has not ended in time."""
        self.kill(signal.SIGTERM)
        if not self.ended.wait(grace_s):
            self.kill(signal.SIGKILL)

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        with self._ending:
            if self.is_running and self._process is not None and self._process.returncode is None:
                os.killpg(self._process.pid, number)

    def _wait(self, process: subprocess.Popen[bytes], readers: Sequence[threading.Thread]) -> None:
        for reader in readers:
            reader.join()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # so that a signal cannot reach another process of this id
        with self._ending:
            code = process.wait()
        self.exit_code = 128 - code if code < 0 else code
        self.ended.set()


def _read(number: int, pipe: object, on_output: Callable[[int, bytes], None]) -> None:
    with pipe:  # type: ignore[attr-defined]
        while chunk := os.read(pipe.fileno(), 32768):  # type: ignore[attr-defined]
            on_output(number, chunk)


def _on_this_machine(argument: str, mounts: Mapping[str, str]) -> str:
    for inside, source in mounts.items():
        argument = argument.replace(inside, source)
    return argument
