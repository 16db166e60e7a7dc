"""The names of a task instance in the store.

The owner is the same for every try of a task instance, also after a clear: a later try recognizes its own job by it. The worker
is one try in one process: people find the log by it. ``ti.id`` cannot be the owner, since each try gets a new one.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

from airflow_snowpack.airflow.task_ref import TaskRef

if TYPE_CHECKING:
    from airflow.sdk import Context


def owner_of(context: Context) -> str:
    """Return ``dag/run/task[index]``."""
    return TaskRef.of(context["ti"]).name


def worker_of(context: Context) -> str:
    """Return the owner, the try and the process."""
    return f"{TaskRef.of(context['ti'])} on {socket.gethostname()}:{os.getpid()}"
