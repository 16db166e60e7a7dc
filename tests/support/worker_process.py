"""A worker as a process of its own: ``python worker_process.py <store url> <how the engine works>``.

``stuck`` blocks the main thread inside of a C call that no signal ends; ``quick`` does nothing and succeeds.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from datetime import timedelta

from scripted_engine import ScriptedEngine

from airflow_snowpack.jobs import ActionResult, Job, Jobs, JobWorker
from airflow_snowpack.store import open_store


class StuckEngine(ScriptedEngine):
    """Locks a C mutex twice: the second call never returns, not even when a signal arrives."""

    def run(self, job: Job, action: str) -> ActionResult:
        libc = ctypes.CDLL(None)
        mutex = ctypes.create_string_buffer(128)  # all zero is an unlocked pthread_mutex_t
        libc.pthread_mutex_lock(mutex)
        print("stuck", flush=True)
        libc.pthread_mutex_lock(mutex)
        raise AssertionError("a mutex that was never unlocked was locked twice")


def main(url: str, how: str) -> int:
    jobs = Jobs(open_store(url))
    worker = JobWorker(jobs, StuckEngine if how == "stuck" else ScriptedEngine, "process-worker", poll=timedelta(seconds=0.1))
    if how == "quick":
        threading.Timer(0.5, lambda: print("idle", flush=True)).start()
    return worker.run_forever()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
