"""A task whose entry tries to outlive it: ``python killed_entries.py ROOT KIND``.

The entry starts processes that escape, each in its own way, and prints ``started`` when all of them have written their process id
to a file in ROOT/pids. What the entry and the task do then follows from the kind:

- ``stays``: they wait for a signal, and the entry and its children ignore SIGTERM if the kind is ``stubborn``;
- ``leaves``: the entry ends with exit code 0 when ROOT/seen exists, and leaves its children;
- ``stops``: SIGTERM has the task stop its runner, as ``on_kill`` does; ``exits``: it raises SystemExit in the main thread.
"""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path
from typing import Any

NAMES = (
    "child",
    "in-own-group",
    "in-own-session",
    "orphan",
    "daemon",
    "daemon-with-clean-environment",
    "grandchild-of-daemon",
    "entry",
)
STAY = """
import os, sys, time
from pathlib import Path

def stay(pids, name):
    Path(pids, name + ".new").write_text(str(os.getpid()))
    Path(pids, name + ".new").rename(Path(pids, name))
    while True:
        time.sleep(1000)
"""
ESCAPES = f"""
import signal
{STAY}
STAY = {STAY!r}
pids, kind, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
if kind == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)

def child(name, *steps):
    if os.fork():
        return
    for step in steps:
        if step == "setsid":
            os.setsid()
        elif step == "setpgid":
            os.setpgid(0, 0)
        elif step == "fork" and os.fork():
            os._exit(0)
        elif step == "close":
            for fd in range(3):
                os.close(fd)
        elif step == "clean":
            os.execve(sys.executable, [sys.executable, "-S", "-c", STAY + "stay(*sys.argv[1:])", pids, name], {{}})
    stay(pids, name)

child("child")
child("in-own-group", "setpgid")
child("in-own-session", "setsid")
child("orphan", "fork")
child("daemon", "setsid", "fork", "close")
child("daemon-with-clean-environment", "setsid", "fork", "close", "clean")
child("grandchild-of-daemon", "setsid", "fork", "setsid", "fork")
Path(pids, "entry").write_text(str(os.getpid()))
while len([path for path in Path(pids).iterdir() if path.suffix != ".new"]) < number:
    time.sleep(0.01)
print("started", flush=True)
while kind != "leaves" or not Path(pids, "../seen").exists():
    time.sleep(0.05)
"""


def main(root: Path, kind: str) -> None:
    """Run the entry."""
    from airflow_snowpack.runners import Exchanges, ShellEntry, SubprocessRunner

    runner = SubprocessRunner(grace=1)

    def on_signal(*_: Any) -> None:
        if kind == "exits":
            raise SystemExit(143)
        stopping = threading.Thread(target=runner.stop)
        stopping.start()
        stopping.join()

    if kind in ("stops", "exits"):
        signal.signal(signal.SIGTERM, on_signal)
    with Exchanges(root / "exchange").begin("dag/run/task/-1", "attempt") as exchange:
        exchange.write_call(ShellEntry((sys.executable, "-S", "-c", ESCAPES, str(root / "pids"), kind, str(len(NAMES)))))
        invocation = exchange.invocation(isolated=False, inside=None)
        print("exit code", runner.run(invocation, lambda line: print(line.text, flush=True)), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
