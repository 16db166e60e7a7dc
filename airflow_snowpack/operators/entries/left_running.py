"""Removes the containers and pods that tasks have left when Airflow ended them.

    removed = remove_left_running(root, store.identity, TaskRunStates())

A deferred task has no process that could delete its pod, and neither has one that was killed; without a next try, nothing would.
The invariant: nothing is removed unless Airflow itself reports the end of its task.
"""

from __future__ import annotations

import logging
from pathlib import Path

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.hooks.ended_tasks import TaskStates
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.interim.collection.model import RunStates
from airflow_snowpack.operators.entries.isolated_runner import open_driver
from airflow_snowpack.operators.entries.place import Note, read_notes

log = logging.getLogger(__name__)


def remove_left_running(root: Path, store_id: str, states: RunStates) -> list[TaskRef]:
    """Remove what ended tasks have left running, and return these tasks. What fails is left to the next sweep.

    :param root: the setting ``runner_folder``.
    :param store_id: of this installation; others may share the folder.
    """
    notes = [(note.place.identity.attempt.task, note) for note in read_notes(root, store_id)]
    try:
        tasks = TaskStates({task for task, _ in notes}, states)
    except AirflowUnreachable as problem:
        log.warning("What ended tasks have left running stays until the next sweep: %s", problem)
        return []
    return [task for task, note in notes if tasks.end_of(task) is not None and _remove(task, note)]


def _remove(task: TaskRef, note: Note) -> bool:
    try:
        driver = open_driver(note.runner, note.place)
        with driver.errors():
            driver.remove(note.event)
    except Exception as problem:  # noqa: BLE001 - also a connection that does not exist, and a provider that is not installed
        log.warning("What the ended task %s has left running stays until the next sweep: %s", task, problem)
        return False
    log.warning("The task %s has ended; what it had left running, if anything, was removed.", task)
    return True
