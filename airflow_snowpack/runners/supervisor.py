"""Runs one program, and ends everything that it has started: the process between a task and its entry.

    python -I -S supervisor.py CONTROL STATUS GRACE FOLDER PROGRAM [ARGUMENT …]

CONTROL is the file descriptor of a pipe from the task: a byte requests the end of the program, and the end of the pipe means that
the task is gone; the exchange folder FOLDER is then removed as well. The results are lines of JSON on the file descriptor STATUS:
``{"exit_code": 0}``, ``{"not_started": "it is not executable"}``, or ``{"left": [4711]}`` for processes that could not be ended.
GRACE is the time in seconds between SIGTERM and SIGKILL.

There are two supervisors, one the parent of the other and each a subreaper: a process that leaves its session, and whose parent
ends, becomes the child of the nearest one. If either of them is killed, the other one therefore ends every process below it. The
pipe STATUS ends when both are gone, which is when no process is left, unless both were killed: their orphans then become children
of the task, a subreaper too, which ends them (:func:`end_foreign_children`).

It uses only the standard library, and no thread, since Linux ends the program with the thread that started it.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Any, NoReturn

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
# A killed process ends when it has left the kernel, which a hanging network file system may delay.
KILL_LIMIT_S = 30.0
# Processes below a child send this process no signal when they end: it searches for them.
SEARCH_INTERVAL_S = 0.05

Prctl = Callable[..., int]


class Supervisor:
    """Waits for one child, and ends all processes below this one.

    :param lifeline: a pipe from the parent process; its end means that the parent is gone.
    :param grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, lifeline: int, grace: float) -> None:
        self.grace = grace
        self._ended: dict[int, int] = {}
        self._stopped = self._is_orphan = False
        self._lifeline, self._parent = lifeline, _pidfd(os.getppid())
        # Signals wake up the poll below.
        self._wakeup, wakeup = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(self._wakeup, False)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for each in STOP_SIGNALS:
            signal.signal(each, self._on_stop_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def wait(self, child: int) -> int | None:
        """Wait for the child's end, and return its exit code; ``None`` if the end was requested first."""
        while True:
            self._clear_wakeup()
            self._reap()
            if child in self._ended:
                return self._ended[child]
            if self._stopped or self._is_requested(None):
                return None

    def wait_at_most(self, child: int, seconds: float) -> None:
        """Wait for the child's end."""
        until = time.monotonic() + seconds
        while child not in self._ended and (left := until - time.monotonic()) > 0:
            self._wait_for_signal(left)
            self._reap()

    def end_all(self) -> list[int]:
        """End all processes below this one by SIGTERM, after the grace period by SIGKILL; return those that are left."""
        terminated: set[int] = set()
        until = time.monotonic() + self.grace
        while self._reap() and (left := until - time.monotonic()) > 0:
            new = [pid for pid in descendants(os.getpid()) if pid not in terminated]
            terminated.update(new)
            _send(signal.SIGTERM, new)
            self._wait_for_signal(min(left, SEARCH_INTERVAL_S))
        until = time.monotonic() + KILL_LIMIT_S
        while self._reap() and time.monotonic() < until:
            _send(signal.SIGKILL, descendants(os.getpid()))
            self._wait_for_signal(SEARCH_INTERVAL_S)
        return list(descendants(os.getpid()))

    def is_orphan(self) -> bool:
        """Return whether the process at the other end of the lifeline is gone."""
        while not self._is_orphan and self._is_requested(0):
            continue  # requests that came before the end of the pipe
        return self._is_orphan

    def exit_code(self, child: int) -> int | None:
        return self._ended.get(child)

    def _is_requested(self, seconds: float | None) -> bool:
        """Wait for a signal or a request; return whether the end is requested."""
        poll = select.poll()
        for fd in (self._wakeup, self._lifeline, self._parent):
            if fd is not None:
                poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if seconds is None else seconds * 1000)}
        if self._parent in ready:
            self._is_orphan = True
        elif self._lifeline in ready:
            self._is_orphan = not os.read(self._lifeline, 1)
        return self._parent in ready or self._lifeline in ready

    def _wait_for_signal(self, seconds: float) -> None:
        self._clear_wakeup()
        poll = select.poll()
        poll.register(self._wakeup, select.POLLIN)
        poll.poll(seconds * 1000)

    def _reap(self) -> bool:
        """Collect the children that have ended; return whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if not pid:
                return True
            self._ended[pid] = os.waitstatus_to_exitcode(status)

    def _clear_wakeup(self) -> None:
        try:
            os.read(self._wakeup, 4096)
        except BlockingIOError:
            return

    def _on_stop_signal(self, *_: object) -> None:
        self._stopped = True


def descendants(root: int) -> Iterator[int]:
    """Yield the processes below this one, of any session or process group."""
    by_parent = children()
    below = list(by_parent.get(root, ()))
    while below:
        pid = below.pop()
        yield pid
        below += by_parent.get(pid, ())


def children() -> dict[int, list[int]]:
    """Return the children of each process, including those that have ended and were not collected."""
    found: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent_of(name)) is not None:
            found.setdefault(parent, []).append(int(name))
    return found


def end_foreign_children(own: frozenset[int]) -> list[int]:
    """End, by SIGKILL, the children that this process got from killed supervisors, with all processes below them.

    Their session distinguishes them from children that another thread has started: each entry has its own session.

    :param own: the children that this process had before.
    :returns: the processes that could not be ended.
    """
    until = time.monotonic() + KILL_LIMIT_S
    while foreign := [pid for pid in children().get(os.getpid(), ()) if pid not in own and _left_session(pid)]:
        if time.monotonic() > until:
            return foreign
        for pid in foreign:
            _send(signal.SIGKILL, [pid, *descendants(pid)])
            with suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        time.sleep(SEARCH_INTERVAL_S)
    return []


def _left_session(pid: int) -> bool:
    with suppress(ProcessLookupError):  # another thread has collected it
        return os.getsid(pid) != os.getsid(0)
    return False


def _parent_of(pid: str) -> int | None:
    """Return the parent of a process; ``None`` if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as stat:
            # The name before it may contain spaces and parentheses.
            return int(stat.read().rpartition(b")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def _pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable when the process has ended; ``None`` if this system has none.

    The pipe from the task does not end while a process that the task has forked holds it.
    """
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue  # it has ended, or belongs to another user


def start(argv: list[str], folder: str, prctl: Prctl) -> tuple[int, str | None]:
    """Start the program in a new session; return its process id, and the problem if it could not be started."""
    parent, (problem, report) = os.getpid(), os.pipe()
    child = os.fork()
    if not child:
        _become(argv, folder, parent, report, prctl)
    os.close(report)
    with open(problem, "rb") as reported:
        return child, reported.read().decode() or None


def _become(argv: list[str], folder: str, parent: int, report: int, prctl: Prctl) -> NoReturn:
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        for number in (*STOP_SIGNALS, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)  # killed before this process requested a signal
        os.chdir(folder)
        os.execvpe(argv[0], argv, os.environ)
    except OSError as error:
        os.write(report, _explained(error).encode())
    finally:
        os._exit(127)


def _explained(error: OSError) -> str:
    if error.errno == errno.ENOENT:
        return "there is no such program, or the interpreter in its first line does not exist"
    if error.errno == errno.EACCES:
        return "it is not executable"
    if error.errno == errno.ENOEXEC:
        return "it is not a program, or a script without #! in its first line"
    return os.strerror(error.errno or 0)


def supervise(argv: list[str], folder: str, lifeline: int, grace: float, status: int, prctl: Prctl) -> None:
    """Run as the inner supervisor: start the program, report its end, and end what it left."""
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    supervisor = Supervisor(lifeline, grace)
    child, problem = start(argv, folder, prctl)
    _detach_output()
    if problem is not None:
        supervisor.end_all()
        report(status, {"not_started": problem})
        return
    supervisor.wait(child)
    supervisor.end_all()
    code = supervisor.exit_code(child)
    if code is not None:
        report(status, {"exit_code": code})


def main(control: int, status: int, grace: float, folder: str, argv: list[str]) -> None:
    """Run as the outer supervisor: run the program under the inner one, and end what it left."""
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for fd in (control, status):
        os.set_inheritable(fd, False)
    prctl: Any = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    lifeline, held = os.pipe()
    supervisor = Supervisor(control, grace)
    inner = os.fork()
    if not inner:
        for fd in (held, control):
            os.close(fd)
        supervise(argv, folder, lifeline, grace, status, prctl)
        os._exit(0)
    os.close(lifeline)
    _detach_output()
    if supervisor.wait(inner) is None:
        os.close(held)  # requests the end
        supervisor.wait_at_most(inner, grace + 1)
    if left := supervisor.end_all():
        report(status, {"left": left})
    if supervisor.is_orphan():
        import shutil

        shutil.rmtree(folder, ignore_errors=True)


def _detach_output() -> None:
    """Close the output of the entry in this process: otherwise the task would not see its end."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(nowhere, fd)
    os.close(nowhere)


def report(status: int, found: dict[str, object]) -> None:
    try:
        os.write(status, json.dumps(found).encode() + b"\n")
    except BrokenPipeError:
        return  # the task is gone


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4], sys.argv[5:])
