"""Reads Airflow connections, and allows the embedded defaults only where every process of the installation sees the same files.

An executor that runs tasks on other hosts gives each host an embedded file of its own, and with it its own locks, jobs and
tables: two hosts would maintain one table at the same time without noticing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException, AirflowRuntimeError

from airflow_snowpack.connections.errors import ConnectionNotFound, EmbeddedNotShared

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Connection

LOCAL_EXECUTORS = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})
KUBERNETES_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"
"""Set in every pod that the KubernetesExecutor starts; there the executor's name is often LocalExecutor."""


def read_connection(conn_id: str, purpose: str) -> Connection:
    """:raises ConnectionNotFound: there is no such connection."""
    try:
        return BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise ConnectionNotFound(conn_id, purpose, error) from error


async def read_connection_in_trigger(conn_id: str, purpose: str) -> Connection:
    """Read a connection in a trigger: the blocking call would stop the event loop.

    :raises ConnectionNotFound: there is no such connection.
    """
    try:
        return await BaseHook.aget_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError) as error:
        raise ConnectionNotFound(conn_id, purpose, error) from error


def refuse_on_remote_executor(setting: str, what: str, place: Path) -> None:
    """Refuse an embedded file if tasks may run on other hosts.

    :param setting: the option of ``[snowpack]`` to set instead.
    :param place: the file or folder.
    :raises EmbeddedNotShared: an executor is not local.
    """
    remote = remote_executors()
    if remote:
        raise EmbeddedNotShared(setting, what, str(place), remote)


def remote_executors() -> tuple[str, ...]:
    """Return the configured executors that run tasks on other hosts; unknown executors count as remote."""
    from airflow.configuration import conf

    # Such as "LocalExecutor,team=CeleryExecutor" or "alias:my.module.ClassName".
    configured = (each.strip() for each in str(conf.get("core", "executor", fallback="LocalExecutor")).split(","))
    names = [each.rpartition("=")[2].rpartition(":")[2].rpartition(".")[2] for each in configured if each]
    remote = [name for name in names if name not in LOCAL_EXECUTORS]
    if not remote and os.environ.get(KUBERNETES_POD):
        remote = ["KubernetesExecutor"]
    return tuple(remote)
