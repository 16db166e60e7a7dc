"""A small engine for the tests: it does what its script says, and a blocked action ends by an interrupt only.

engine = ScriptedEngine({"expire_snapshots": "block", "rewrite_manifests": "fail"})
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from airflow_snowpack.jobs import ActionOutcome, ActionResult, Job

Step = Literal["succeed", "skip", "fail", "raise", "block"]
PATIENCE_S = 120.0
"""After this long a test that waits for a thread fails instead of hanging."""


class ScriptedEngine:
    """Actions that are not in the script succeed.

    :param between: called in the middle of each action, with its name; may raise or change the world.
    """

    server: str | None = None
    gb_hours: float | None = None

    def __init__(self, script: Mapping[str, Step] | None = None, between: Callable[[str], None] = lambda _action: None) -> None:
        self._script = script or {}
        self._between = between
        self.ran: list[str] = []
        self.started = threading.Event()
        self.interrupted = threading.Event()

    def run(self, job: Job, action: str) -> ActionResult:
        self.ran.append(action)
        self.started.set()
        self._between(action)
        match self._script.get(action, "succeed"):
            case "raise":
                raise RuntimeError("the engine broke")
            case "fail":
                return ActionResult(action, ActionOutcome.FAILED, "Did nothing", 0.1, error="no such file")
            case "skip":
                return ActionResult(action, ActionOutcome.SKIPPED, "Nothing to do", 0.1, metrics={"files": 0})
            case "block":
                assert self.interrupted.wait(PATIENCE_S), "nobody interrupted the engine"
                return ActionResult(action, ActionOutcome.INTERRUPTED, "Stopped", 0.1, error="interrupted")
            case _:
                return ActionResult(action, ActionOutcome.SUCCEEDED, "Done", 0.1, metrics={"files": 1})

    def interrupt(self) -> None:
        self.interrupted.set()


def eventually(true: Callable[[], bool], patience_s: float = PATIENCE_S) -> None:
    """Wait until it holds: for what another thread or process brings about."""
    deadline = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
