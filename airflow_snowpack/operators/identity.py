"""What a task instance is called in the store.

The owner is the same for every try of a task instance, and after a clear: by it a later try knows its own job again. The
worker is one try in one process: by it people find the log. ``ti.id`` would not do as the owner, since each try gets a new
one.
"""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def owner_of(context: Context) -> str:
    """``dag/run/task``, and the index of a mapped task."""
    instance = context["ti"]
    mapped = f"[{instance.map_index}]" if instance.map_index is not None and instance.map_index >= 0 else ""
    return f"{instance.dag_id}/{instance.run_id}/{instance.task_id}{mapped}"


def tries_of(context: Context) -> str:
    """What the names of all workers of this task instance begin with."""
    return f"{owner_of(context)} try "


def worker_of(context: Context) -> str:
    """The owner, the try and the process."""
    return f"{tries_of(context)}{context['ti'].try_number} on {socket.gethostname()}:{os.getpid()}"
