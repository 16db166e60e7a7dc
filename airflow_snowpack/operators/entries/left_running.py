"""Removes the containers and pods that tasks left running when Airflow ended them.

    removed = remove_left_running(root, store.identity, TaskRunStates())

A deferred or killed task has no process that could delete its pod; without a next try, nothing would. The invariant: nothing is
removed unless Airflow itself reports the end of its task.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial
from pathlib import Path

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.hooks.ended_tasks import TaskStates
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.interim.collection.model import RunStates
from airflow_snowpack.interim.model import TaskAttempt
from airflow_snowpack.operators.entries.isolated_runner import open_driver
from airflow_snowpack.operators.entries.place import Note, read_notes
from airflow_snowpack.timed_calls import TimedCalls

log = logging.getLogger(__name__)

LIMIT = timedelta(seconds=30)
"""How long a daemon or a cluster may take to remove what one attempt left; attempts are removed concurrently."""


def remove_left_running(root: Path, store_id: str, states: RunStates, limit: timedelta = LIMIT) -> list[TaskRef]:
    """Remove what ended tasks have left running, and return these tasks. What fails is left to the next sweep.

    :param root: the setting ``runner_folder``.
    :param store_id: of this installation; others may share the folder.
    """
    notes = {note.place.identity.attempt: note for note in read_notes(root, store_id)}
    try:
        tasks = TaskStates({attempt.task for attempt in notes}, states)
    except AirflowUnreachable as problem:
        log.warning("What ended tasks have left running stays until the next sweep: %s", problem)
        return []
    ended = {attempt: partial(_remove, note) for attempt, note in notes.items() if tasks.end_of(attempt.task) is not None}
    removals = TimedCalls[TaskAttempt, None](lambda attempt: f"Where {attempt.task} ran", limit=limit)
    removed = []
    for attempt, result in removals.run(ended):
        if isinstance(result, Exception):  # including a connection that does not exist, and a provider that is not installed
            log.warning("What the ended task %s has left running stays until the next sweep: %s", attempt.task, result)
        else:
            log.warning("The task %s has ended; what it had left running, if anything, was removed.", attempt.task)
            removed.append(attempt.task)
    return removed


def _remove(note: Note) -> None:
    driver = open_driver(note.runner, note.place)
    with driver.errors():
        driver.remove(note.event)
