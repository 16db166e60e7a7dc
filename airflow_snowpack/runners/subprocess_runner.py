"""Runs an entry as a process of the worker's host.

    runner = SubprocessRunner()
    code = runner.run(invocation, on_line)

The entry starts in a new session under a supervisor (``supervisor.py``), with the worker's environment, without standard input,
and in the exchange folder. The invariant: when :meth:`run` has ended, or the task or the supervisor was killed, no process of the
entry is left, even if it left its process group or session. While an entry runs, this process is a subreaper: if both supervisors
are killed, it becomes the parent of their processes, and ends them.
"""

from __future__ import annotations

import ctypes
import json
import logging
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from airflow_snowpack.runners.errors import EntryCancelled, EntryFailed, EntryNotStarted
from airflow_snowpack.runners.invocation import Invocation, OutputLine
from airflow_snowpack.runners.output_lines import OutputLines, Stream
from airflow_snowpack.runners.supervisor import PR_SET_CHILD_SUBREAPER, children, end_foreign_children

log = logging.getLogger(__name__)

SUPERVISOR = Path(__file__).with_name("supervisor.py")
READ_BYTES = 64 * 1024
PR_GET_CHILD_SUBREAPER = 37


class SubprocessRunner:
    """The runner ``subprocess``. It needs Linux.

    :param grace: seconds between SIGTERM and SIGKILL when the entry is stopped. Airflow ends a task 5 seconds after SIGTERM.
    """

    isolated = False
    inside: str | None = None

    def __init__(self, grace: float = 3.0) -> None:
        self.grace = grace
        self._is_stopped = False
        # Reentrant: a signal handler may call stop() while its thread is in run().
        self._lock = threading.RLock()
        self._control: int | None = None
        self._left: list[int] = []

    def run(self, invocation: Invocation, on_line: Callable[[OutputLine], None]) -> int:
        """Run the entry; see :meth:`Runner.run`. The supervisor of a task that was killed removes the exchange folder."""
        if self._is_stopped:
            raise EntryCancelled
        own_children = frozenset(children().get(os.getpid(), ()))
        supervisor, status = self._start(invocation)
        try:
            found = self._follow(supervisor, status, OutputLines(on_line, invocation.mark))
        except BaseException:
            self._request_end()
            raise
        finally:
            self._end(supervisor, status, own_children)
        return self._exit_code(invocation, found, supervisor.returncode)

    def stop(self) -> None:
        self._is_stopped = True
        self._request_end()

    def _start(self, invocation: Invocation) -> tuple[subprocess.Popen[bytes], int]:
        if not sys.platform.startswith("linux"):
            raise EntryNotStarted(
                invocation.argv[0], "the runner 'subprocess' needs Linux, which can end all processes of an entry"
            )
        (control, held), (status, reported) = os.pipe(), os.pipe()
        arguments = [str(control), str(reported), str(self.grace), str(invocation.folder), *invocation.argv]
        try:
            supervisor = _supervisors.start(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *(each.encode("utf-8", "surrogateescape") for each in arguments)],
                env={**os.environ, **invocation.environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(control, reported),
                start_new_session=True,
            )
        except OSError as error:
            for fd in (held, status):
                os.close(fd)
            raise EntryNotStarted(invocation.argv[0], os.strerror(error.errno or 0)) from error
        finally:
            for fd in (control, reported):
                os.close(fd)
        self._control = held
        if self._is_stopped:  # stopped before there was anything to end
            self._request_end()
        return supervisor, status

    def _follow(self, supervisor: subprocess.Popen[bytes], status: int, lines: OutputLines) -> dict[str, Any]:
        """Pass on the output until no process is left; return what the supervisors reported."""
        assert supervisor.stdout is not None
        assert supervisor.stderr is not None
        streams = {supervisor.stdout.fileno(): Stream.STDOUT, supervisor.stderr.fileno(): Stream.STDERR}
        reported = bytearray()
        with selectors.DefaultSelector() as selector:
            for fd in (*streams, status):
                os.set_blocking(fd, False)
                selector.register(fd, selectors.EVENT_READ)
            is_running = True
            while is_running:
                for key, _ in selector.select():
                    if data := os.read(key.fd, READ_BYTES):
                        lines.feed(streams[key.fd], data) if key.fd in streams else reported.extend(data)
                    else:
                        selector.unregister(key.fd)
                        is_running = is_running and key.fd != status
        for fd, stream in streams.items():  # a process of another user, which nothing can end, may still have the pipes
            while data := _available(fd):
                lines.feed(stream, data)
        lines.close()
        found: dict[str, Any] = {}
        for line in reported.splitlines():
            found |= json.loads(line)
        return found

    def _exit_code(self, invocation: Invocation, found: dict[str, Any], of_supervisor: int) -> int:
        if left := found.get("left") or self._left:
            log.warning("Processes of the entry could not be ended: %s. They may belong to another user.", left)
        if self._is_stopped:
            raise EntryCancelled
        if "not_started" in found:
            raise EntryNotStarted(invocation.argv[0], found["not_started"])
        if "exit_code" not in found and of_supervisor > 0:
            raise EntryNotStarted(invocation.argv[0], "its supervisor has failed, with the error at the end of the output")
        if "exit_code" not in found:
            raise EntryFailed(-9, "Its supervisor was killed before it, and its processes were ended.")
        return int(found["exit_code"])

    def _request_end(self) -> None:
        with self._lock:
            if self._control is not None:
                try:
                    os.write(self._control, b".")
                except BrokenPipeError:
                    return  # the supervisor has ended

    def _end(self, supervisor: subprocess.Popen[bytes], status: int, own_children: frozenset[int]) -> None:
        """Wait until no process is left; end the processes of killed supervisors."""
        os.set_blocking(status, True)
        while os.read(status, READ_BYTES):
            continue
        self._left = _supervisors.end(supervisor, own_children)
        with self._lock:
            control, self._control = self._control, None
        if control is not None:
            os.close(control)
        os.close(status)
        for stream in (supervisor.stdout, supervisor.stderr):
            if stream is not None:
                stream.close()


class _Supervisors:
    """The supervisors of all entries that this process runs. While there are any, it is the parent of orphans below it."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._running: set[int] = set()
        self._was_subreaper = 0

    def start(self, argv: list[str | bytes], **options: Any) -> subprocess.Popen[bytes]:
        with self._guard:
            supervisor = subprocess.Popen(argv, **options)
            if not self._running:
                was = ctypes.c_int(0)
                ctypes.CDLL(None).prctl(PR_GET_CHILD_SUBREAPER, ctypes.byref(was), 0, 0, 0)
                self._was_subreaper = was.value
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            self._running.add(supervisor.pid)
            return supervisor

    def end(self, supervisor: subprocess.Popen[bytes], own_children: frozenset[int]) -> list[int]:
        """Wait for its end; if it was killed, end its processes. Return those that could not be ended.

        :param own_children: the children that this process had before the entry. No other entry starts meanwhile.
        """
        killed = supervisor.wait()
        with self._guard:
            self._running.discard(supervisor.pid)
            left = end_foreign_children(own_children | self._running) if killed else []
            if not self._running:
                ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, self._was_subreaper, 0, 0, 0)
            return left


_supervisors = _Supervisors()


def _available(fd: int) -> bytes:
    try:
        return os.read(fd, READ_BYTES)
    except BlockingIOError:
        return b""
