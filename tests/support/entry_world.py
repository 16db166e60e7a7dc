"""What the tests of runners share: an attempt, its invocation, and the lines of its entry."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from answering_airflow import RunTold, answering_airflow
from bounded import PATIENCE_S

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.interim.model import TaskAttempt
from airflow_snowpack.operators.entries.place import EntryIdentity
from airflow_snowpack.runners.invocation import Invocation, OutputLine

if TYPE_CHECKING:
    from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner

PATIENCE = timedelta(seconds=PATIENCE_S)
STARTED = datetime(2026, 3, 1, 12, tzinfo=UTC)
RUN_ID = "scheduled__2026-03-01T00:00:00+00:00"
ROOT = tempfile.TemporaryDirectory(prefix="entries-")
SECRET = "hunter2 $(HOME) 'quoted'\nsecond line é"


def identity(
    attempt: str = "0196-a", tried: int = 1, after: timedelta = timedelta(0), *, task: str = "score", store_id: str = "store-1"
) -> EntryIdentity:
    """Return an attempt at the task instance ``flights/…/score[2]``."""
    return EntryIdentity(TaskAttempt(TaskRef("flights", RUN_ID, task, 2), attempt, tried, STARTED + after), store_id)


def invocation(folder: Path, *argv: str, environment: Mapping[str, str] | None = None) -> Invocation:
    """Return the run of a command in a container or a pod."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o777)
    return Invocation(argv, environment or {}, folder, "/snowpack")


def docker_runner(image: str, of: EntryIdentity, options: Mapping[str, Any], root: Path | None = None) -> IsolatedRunner:
    """Return the runner ``docker``, which reads nothing of Airflow's context.

    :param root: the folder of the exchange folders; ``None`` for one that ends with this process.
    """
    from airflow_snowpack.operators.entries.isolated_runner import IsolatedRunner, open_runner
    from airflow_snowpack.operators.entries.place import RunPlace

    context: Any = {}
    runner = open_runner("docker", RunPlace(image, of, options, context, root or Path(ROOT.name)))
    assert isinstance(runner, IsolatedRunner)
    return runner


def swept(root: Path, state: str | None, store_id: str = "store-1", limit: timedelta = PATIENCE) -> list[str]:
    """Sweep what tasks have left running, with an Airflow in which ``score[2]`` is in this state; return the tasks."""
    from airflow_snowpack.hooks.api_client import AirflowRest
    from airflow_snowpack.hooks.run_states import RestRunStates
    from airflow_snowpack.operators.entries.left_running import remove_left_running

    runs = {("flights", RUN_ID): RunTold("running", {"score": {2: state}})}
    with answering_airflow(runs) as address, AirflowRest(address, token="t") as rest:
        return [str(task) for task in remove_left_running(root, store_id, RestRunStates(rest), limit)]


def python(code: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs this code."""
    return (sys.executable, "-u", "-c", code, *arguments)


@dataclass
class Lines:
    """Receives the lines of an entry.

    :ivar until: raises when it receives this line.
    """

    received: list[OutputLine] = field(default_factory=list)

    def __call__(self, line: OutputLine) -> None:
        self.received.append(line)

    @property
    def texts(self) -> list[str]:
        return [line.text for line in self.received]
