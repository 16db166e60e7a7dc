"""Reads and tests Airflow connections, and allows the embedded defaults only where every process sees the same files.

An executor that runs tasks on other hosts gives each host its own embedded file, with separate locks, jobs and tables: two hosts
would maintain one table at the same time without noticing.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowNotFoundException
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowRuntimeError, ErrorType

from airflow_snowpack.airflow_versions import AirflowSecretsBackendAccessDenied
from airflow_snowpack.connections.errors import SHARED_DATABASE, ConnectionNotFound, ConnectionUnreadable, EmbeddedNotShared
from airflow_snowpack.errors import SnowpackError, error_text
from airflow_snowpack.redaction import redacted, remember_secrets

if TYPE_CHECKING:
    from pathlib import Path

    from airflow.sdk import Connection

LOCAL_EXECUTORS = frozenset({"LocalExecutor", "SequentialExecutor", "DebugExecutor"})
KUBERNETES_POD = "AIRFLOW_IS_K8S_EXECUTOR_POD"
"""Set in every pod that the KubernetesExecutor starts; there the executor's name is often LocalExecutor."""
TEST_TIMEOUT = timedelta(seconds=10)
OPTION = re.compile(r"\[([a-z_]+)\] ([a-z_]+)")
MARKUP = re.compile(r"\[([a-zA-Z#/@][^\[\]]*)\]")
ANSWERED = [error for error in ErrorType if error.name in ("CONNECTION_NOT_FOUND", "PERMISSION_DENIED")]


def read_connection(conn_id: str, purpose: str) -> Connection:
    """Return a connection, and keep its secrets out of messages. This blocks: a trigger calls it in a thread.

    :param purpose: what the connection is for, in messages.
    :raises ConnectionNotFound: there is no such connection, or it may not be read.
    :raises ConnectionUnreadable: Airflow or a secrets backend does not answer.
    """
    try:
        connection = BaseHook.get_connection(conn_id)
    except (AirflowNotFoundException, AirflowRuntimeError, AirflowSecretsBackendAccessDenied) as error:
        if (outage := _outage(conn_id)) is not None:
            raise ConnectionUnreadable(conn_id, purpose, outage) from error
        raise ConnectionNotFound(conn_id, purpose, error) from error
    remember_secrets({"conn": connection.get_uri()})
    return connection


def _outage(conn_id: str) -> str | None:
    """Search again for a connection that was not found: Airflow skips a secrets backend that fails, and reports "not found".

    :returns: what failed; ``None`` if every backend has answered that it has no such connection.
    """
    from airflow.sdk.execution_time.secrets import ExecutionAPISecretsBackend
    from airflow.sdk.execution_time.supervisor import ensure_secrets_backend_loaded

    for backend in ensure_secrets_backend_loaded():
        name = type(backend).__name__
        try:
            by_api = isinstance(backend, ExecutionAPISecretsBackend)
            found = _is_in_airflow(conn_id) if by_api else backend.get_connection(conn_id=conn_id) is not None
        except AirflowSecretsBackendAccessDenied:
            return None
        except Exception as problem:  # noqa: BLE001 - a secrets backend may raise anything here
            return f"{name} failed with {type(problem).__name__}"  # the text may contain secrets
        if found:
            return f"{name} has it now, and did not answer before"
    return None


def _is_in_airflow(conn_id: str) -> bool:
    """Query the API server, whose failures Airflow's secrets backend hides; they raise ``AirflowRuntimeError``."""
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection
    from airflow.sdk.execution_time.task_runner import SUPERVISOR_COMMS

    try:
        answer = SUPERVISOR_COMMS.send(GetConnection(conn_id=conn_id))
    except AirflowRuntimeError as failure:
        answer = failure.error
    if not isinstance(answer, ErrorResponse):
        return True
    # Airflow 3.1 reports a denied connection as a failure of the API server.
    is_denied = (answer.detail or {}).get("status_code") == HTTPStatus.FORBIDDEN
    if answer.error not in ANSWERED and not is_denied:
        raise AirflowRuntimeError(answer)
    return False


def refuse_on_remote_executor(setting: str, what: str, place: Path | str, instead: str = SHARED_DATABASE) -> None:
    """Refuse a default file or folder of this host if tasks may run on other hosts.

    :param setting: the option of ``[snowpack]`` to set instead.
    :param place: the file or folder.
    :param instead: what the hosts would not share, and what to set, for the message.
    :raises EmbeddedNotShared: an executor is not local.
    """
    remote = remote_executors()
    if remote:
        raise EmbeddedNotShared(setting, what, str(place), remote, instead)


def remote_executors() -> tuple[str, ...]:
    """Return the configured executors that run tasks on other hosts; unknown executors count as remote."""
    from airflow.configuration import conf

    # For example "LocalExecutor,team=CeleryExecutor" or "alias:my.module.ClassName".
    configured = (each.strip() for each in str(conf.get("core", "executor", fallback="LocalExecutor")).split(","))
    names = [each.rpartition("=")[2].rpartition(":")[2].rpartition(".")[2] for each in configured if each]
    remote = [name for name in names if name not in LOCAL_EXECUTORS]
    if not remote and os.environ.get(KUBERNETES_POD):
        remote = ["KubernetesExecutor"]
    return tuple(remote)


def message_of(problem: Exception) -> str:
    """Return the message of an error of this package; class and first line of any other."""
    if isinstance(problem, SnowpackError):
        return str(problem)
    first = (error_text(problem).splitlines() or [""])[0]
    return f"{type(problem).__name__}: {first}"


def public_message(problem: Exception) -> str:
    """Return the message of a connection test, without secrets and without Rich markup.

    `airflow connections test` prints it as Rich markup, which drops ``[snowpack]`` and fails on ``[/path]``. Airflow's UI shows
    the same message unchanged: brackets are replaced, not escaped.
    """
    return MARKUP.sub(r"(\1)", OPTION.sub(r"\1.\2", redacted(message_of(problem))))
