"""A server's process: ready when it answers, and gone with everything below it when it is stopped."""

from __future__ import annotations

import sys
import urllib.request
from datetime import timedelta
from pathlib import Path

import psutil
import pytest

from examples.cluster.errors import ServerFailed
from examples.cluster.process import ServerProcess, free_port, free_ports

# It ignores SIGTERM, and has a child in a session of its own.
STUBBORN = """
import signal, subprocess, sys, pathlib
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], start_new_session=True)
pathlib.Path(sys.argv[1]).write_text(str(child.pid))
signal.pause()
"""


def test_a_server_is_started_when_its_probe_succeeds_and_stopped_with_its_block(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
    server = ServerProcess("http", command, port=port, log=tmp_path / "log", folder=tmp_path)

    with server.started(lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}").status == 200):
        assert server.is_running
        pid = server.pid

    assert not server.is_running
    assert not psutil.pid_exists(pid)


def test_a_server_that_ends_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    server = ServerProcess("broken", [sys.executable, "-c", "exit('no disk')"], port=free_port(), log=tmp_path / "log")

    with pytest.raises(ServerFailed, match=r"^broken ended with exit code 1\. Its log, .*, ends with:\nno disk$"):
        server.start(lambda: True)


def test_a_server_that_is_not_ready_in_time_is_reported_with_the_last_answer(tmp_path: Path) -> None:
    server = ServerProcess("slow", [sys.executable, "-c", "import time; time.sleep(3600)"], port=None, log=tmp_path / "log")
    with (
        pytest.raises(ServerFailed, match=r"slow was not ready within 0 s: ZeroDivisionError: division by zero"),
        server.started(lambda: 1 / 0, timedelta(0)),
    ):
        pass

    assert not server.is_running


def test_a_server_that_ignores_the_signal_is_killed_with_everything_below_it(tmp_path: Path) -> None:
    child = tmp_path / "child"
    server = ServerProcess("stubborn", [sys.executable, "-c", STUBBORN, child], port=None, log=tmp_path / "log")
    server.start(lambda: child.exists() and child.read_text())
    below = psutil.Process(int(child.read_text()))

    server.stop(timedelta(seconds=0.1))

    assert not server.is_running
    psutil.wait_procs([below], timeout=60)
    assert not below.is_running() or below.status() == psutil.STATUS_ZOMBIE


def test_free_ports_differ() -> None:
    assert len(set(free_ports(50))) == 50
