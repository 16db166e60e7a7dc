"""When the embedded defaults may be used: only where every process of the installation sees the same files.

    refuse_on_remote_executor("store_conn_id", "the store", path)

An executor that runs tasks on other hosts gives each host a file of its own, and with it locks, jobs and tables of its own. Two
hosts would maintain one table at the same time, and nothing would report it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from airflow_snowpack.hooks.errors import EmbeddedNotShared

if TYPE_CHECKING:
    from pathlib import Path

LOCAL_EXECUTORS = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})
KUBERNETES_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"
"""Set in every pod that the KubernetesExecutor starts; there the executor's name is often LocalExecutor."""


def refuse_on_remote_executor(setting: str, what: str, place: Path) -> None:
    """Refuse an embedded file when tasks may run on other hosts.

    :param setting: the option of ``[snowpack]`` that names a connection instead.
    :param place: the file or folder.
    :raises EmbeddedNotShared: an executor is not local.
    """
    remote = remote_executors()
    if remote:
        raise EmbeddedNotShared(setting, what, str(place), remote)


def remote_executors() -> tuple[str, ...]:
    """Return the configured executors that run tasks on other hosts; an executor that is not known counts as one."""
    from airflow.configuration import conf

    # Such as "LocalExecutor,team=CeleryExecutor" or "alias:my.module.ClassName".
    configured = (each.strip() for each in str(conf.get("core", "executor", fallback="LocalExecutor")).split(","))
    names = [each.rpartition("=")[2].rpartition(":")[2].rpartition(".")[2] for each in configured if each]
    remote = [name for name in names if name not in LOCAL_EXECUTORS]
    if not remote and os.environ.get(KUBERNETES_POD):
        remote = ["KubernetesExecutor"]
    return tuple(remote)
