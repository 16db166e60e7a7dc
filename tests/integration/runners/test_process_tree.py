"""Whatever ends a task, its entry or a supervisor: no process of the entry is left, and no exchange folder."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from bounded import PATIENCE_S, started
from killed_entries import NAMES

CGROUPS = ("/sys/fs/cgroup/pids", "/sys/fs/cgroup")


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[Path | None]:
    """A control group for the task and everything below it, where this machine allows one: no process can leave it."""
    for parent in map(Path, CGROUPS):
        folder = parent / f"snowpack-{os.getpid()}-{tmp_path.name}"
        if (parent / "cgroup.procs").exists() and os.access(parent, os.W_OK):
            try:
                folder.mkdir()
            except OSError:
                continue
            yield folder
            folder.rmdir()
            return
    yield None


class Task:
    """A task whose entry runs.

    :ivar pids: the processes of the entry, by name.
    :ivar supervisors: the outer and the inner one.
    """

    def __init__(self, process: subprocess.Popen[str], root: Path, cgroup: Path | None) -> None:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        self.process, self.root, self.cgroup = process, root, cgroup
        self.pids = {path.name: int(path.read_text()) for path in (root / "pids").iterdir()}
        assert sorted(self.pids) == sorted(NAMES)
        self.supervisors = [self._child_of(process.pid)]
        self.supervisors.append(self._child_of(self.supervisors[0]))
        self.handles = [os.pidfd_open(pid) for pid in (*self.pids.values(), *self.supervisors)]

    @staticmethod
    def _child_of(pid: int) -> int:
        [child] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[:1]
        return int(child)

    def ends(self) -> tuple[int, str, str]:
        """Wait for the end of the task; return its exit code, its output and its errors. Then nothing is left of the entry."""
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        self.everything_has_ended(0 if self.process.returncode >= 0 else PATIENCE_S)
        return self.process.returncode, output, errors

    def everything_has_ended(self, patience_s: float) -> None:
        for handle in self.handles:
            poll = select.poll()
            poll.register(handle, select.POLLIN)
            assert poll.poll(patience_s * 1000), f"a process is left of {self.pids}, {self.supervisors}"
        if self.cgroup is not None:
            assert (self.cgroup / "cgroup.procs").read_text() == ""
        assert list((self.root / "exchange").glob("entry-*")) == []


@contextmanager
def task(root: Path, kind: str, cgroup: Path | None) -> Iterator[Task]:
    (root / "pids").mkdir()

    def join() -> None:
        if cgroup is not None:
            (cgroup / "cgroup.procs").write_text(str(os.getpid()))

    script = Path(__file__).parents[2] / "support" / "killed_entries.py"
    command = [sys.executable, str(script), str(root), kind]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with started(command, preexec_fn=join, env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}, **pipes) as process:
        running = Task(process, root, cgroup)
        try:
            yield running
        finally:
            end(running.handles)


def end(handles: list[int]) -> None:
    """kill -9 for the processes that a failed test leaves."""
    for handle in handles:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, signal.SIGKILL)
        os.close(handle)


def test_children_that_an_entry_leaves_behind_end_with_it(tmp_path: Path, cgroup: Path | None) -> None:
    with task(tmp_path, "leaves", cgroup) as running:
        (tmp_path / "seen").touch()  # all handles are open
        assert running.ends() == (0, "exit code 0\n", "")


@pytest.mark.parametrize("kind", ["stays", "stubborn"])
def test_a_task_that_is_killed_takes_its_entry_with_it(tmp_path: Path, cgroup: Path | None, kind: str) -> None:
    with task(tmp_path, kind, cgroup) as running:
        running.process.kill()
        assert running.ends()[0] == -signal.SIGKILL


@pytest.mark.parametrize("kind", ["stops", "exits"])
def test_a_task_that_receives_sigterm_ends_its_entry_before_itself(tmp_path: Path, cgroup: Path | None, kind: str) -> None:
    with task(tmp_path, kind, cgroup) as running:
        running.process.terminate()
        code, output, errors = running.ends()
        assert output == ""
        assert code == (143 if kind == "exits" else 1)
        assert ("EntryCancelled" in errors) is (kind == "stops")


ENDS: dict[str, tuple[Callable[[Task], int], str]] = {
    "the outer supervisor": (lambda running: running.supervisors[0], "exit code -15"),
    "the inner supervisor": (lambda running: running.supervisors[1], "Its supervisor was killed"),
    "the entry": (lambda running: running.pids["entry"], "exit code -9"),
}


@pytest.mark.parametrize("kind", ["stays", "stubborn"])
@pytest.mark.parametrize("killed", ENDS)
def test_any_of_them_that_is_killed_takes_the_others_with_it(tmp_path: Path, cgroup: Path | None, kind: str, killed: str) -> None:
    victim, reported = ENDS[killed]
    with task(tmp_path, kind, cgroup) as running:
        os.kill(victim(running), signal.SIGKILL)
        _, output, errors = running.ends()
        expected = reported.replace("-15", "-9") if kind == "stubborn" else reported
        assert expected in output + errors


@pytest.mark.parametrize("kind", ["stays", "stubborn"])
def test_the_task_ends_the_entry_when_both_supervisors_are_killed(tmp_path: Path, cgroup: Path | None, kind: str) -> None:
    with task(tmp_path, kind, cgroup) as running:
        for number in (signal.SIGSTOP, signal.SIGKILL):  # neither of them sees the end of the other
            for supervisor in running.supervisors:
                os.kill(supervisor, number)
        code, _, errors = running.ends()
        assert code == 1
        assert "Its supervisor was killed before it, and its processes were ended." in errors


def test_a_task_whose_supervisors_are_killed_keeps_its_own_children(tmp_path: Path) -> None:
    """Those that it had before, and those of its session that another thread starts meanwhile."""
    code = """
import os, signal, subprocess, sys
from pathlib import Path
from airflow_snowpack.runners import Exchanges, ShellEntry, SubprocessRunner
from airflow_snowpack.runners.errors import EntryFailed
from airflow_snowpack.runners.supervisor import children

def sleeper(**options):
    return subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"], **options)

def on_line(line):
    own.append(sleeper())
    [outer] = set(children()[os.getpid()]) - {each.pid for each in own}
    supervisors = outer, children()[outer][0]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in supervisors:
            os.kill(pid, number)

own = [sleeper(start_new_session=True)]
exchange = Exchanges(Path(sys.argv[1])).begin("task", "attempt")
exchange.write_call(ShellEntry((sys.executable, "-S", "-c", "import time; print(1, flush=True); time.sleep(1000)")))
try:
    SubprocessRunner(grace=1).run(exchange.invocation(isolated=False, inside=None), on_line)
except EntryFailed as error:
    print(error)
print(len(own), [each.poll() for each in own], set(children()[os.getpid()]) == {each.pid for each in own})
for each in own:
    each.kill()
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with started([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=environment) as process:
        output, _ = process.communicate(timeout=PATIENCE_S)
    assert output.splitlines()[-1] == "2 [None, None] True"
    assert "Its supervisor was killed" in output


def test_a_supervisor_that_receives_sigterm_ends_the_entry_and_reports_it(tmp_path: Path, cgroup: Path | None) -> None:
    with task(tmp_path, "stays", cgroup) as running:
        os.kill(running.supervisors[0], signal.SIGTERM)
        assert running.ends() == (0, "exit code -15\n", "")


def test_a_task_that_is_killed_while_a_process_that_it_has_forked_lives_on(tmp_path: Path) -> None:
    """That process has a copy of the pipe whose end would mean that the task is gone."""
    code = """
import os, signal, sys, threading, time
from pathlib import Path
from airflow_snowpack.runners import Exchanges, ShellEntry, SubprocessRunner

exchange = Exchanges(Path(sys.argv[1])).begin("task", "attempt")
exchange.write_call(ShellEntry((sys.executable, "-S", "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(1000)")))

def on_line(line):
    if not os.fork():
        time.sleep(1000)
    print(line.text, flush=True)

SubprocessRunner(grace=1).run(exchange.invocation(isolated=False, inside=None), on_line)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with started([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout is not None
        handle = os.pidfd_open(int(process.stdout.readline()))
        process.kill()
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        # Before started() ends the forked process, and the pipe with it.
        ended = poll.poll(PATIENCE_S / 4 * 1000)
        end([handle])
        assert ended
