"""Sessions on a Spark Connect server that another process can find again, and end.

    >>> with server.opened(job_id, attempt) as statements: ...          # in the process that works
    >>> end_session(url, session_id_of(job_id, attempt))                # in any other, after that one was killed

A Connect server goes on with a statement whose client was killed. So nothing about a session is random: its id comes from the
job and the attempt, the user is always the same, and its statements take turns with :data:`OPERATIONS` ids that come from the
session's. Any process that knows the job can therefore interrupt the session, wait for each statement that may still run in
it, and close it. A closed session stays closed: a client that was only frozen cannot start anything in it.
"""

from __future__ import annotations

import atexit
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import cycle
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid5

from airflow_snowpack.redaction import public_address, redacted
from airflow_snowpack.spark.errors import OrphanStillRunning, SparkUnavailable
from airflow_snowpack.spark.runtimes import check_pyspark
from airflow_snowpack.spark.session import CONNECT_MODE, without_substitution
from airflow_snowpack.spark.statements import SessionStatements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import SparkConnectClient

NAMESPACE = UUID("6f6d0b0c-6d5e-4d0f-9a3e-7f2f0c1a9b55")
USER = "airflow-snowpack"
"""The user of a connection that names none: pyspark's default is the login name, which differs between machines."""
OPERATIONS = 64
"""How many operation ids a session has. Statements run one after the other, so an id is long free when its turn comes again."""
RETRIES = 4
LONGEST_ATTACHED_S = 20.0
POLL_S = 0.2


def session_id_of(job_id: str, attempt: int) -> str:
    """The id of the session in which an attempt at a job runs its statements."""
    return str(uuid5(NAMESPACE, f"{job_id}/{attempt}"))


def operation_ids(session_id: str) -> tuple[str, ...]:
    """The ids that the statements of a session may have."""
    return tuple(str(uuid5(UUID(session_id), str(number))) for number in range(OPERATIONS))


@dataclass(frozen=True, slots=True)
class ConnectServer:
    """A Spark Connect server, for work that must be found again when its client is gone.

    :param name: how other processes find its address, such as the id of an Airflow connection.
    :param url: such as ``sc://spark:15002``; it may hold a token.
    :param catalogs: only for a server that does not have them in its own settings.
    """

    name: str
    url: str = field(repr=False)
    catalogs: Mapping[str, str] | None = field(default=None, repr=False)
    _turns: dict[str, Iterator[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @contextmanager
    def opened(self, job_id: str, attempt: int) -> Iterator[SessionStatements]:
        """Open or join the session of an attempt at a job for the block.

        Its statements carry the tag ``snowpack-<job id>``, for people who look at the server.

        :raises SparkUnavailable: the server does not answer.
        """
        name = session_id_of(job_id, attempt)
        # All clients of one session take the ids of their statements from one iterator.
        ids = self._turns.setdefault(name, cycle(operation_ids(name)))
        session = connect_session(self.url, catalogs=self.catalogs, session_id=name, ids=ids)
        session.addTag(f"snowpack-{job_id}")
        try:
            yield SessionStatements(session)
        finally:
            leave_session(session)


def connect_session(
    url: str,
    *,
    catalogs: Mapping[str, str] | None = None,
    session_id: str | None = None,
    ids: Iterator[str] | None = None,
) -> SparkSession:
    """A session on a Spark Connect server.

    :param url: such as ``sc://spark:15002``; a token may be part of it.
    :param catalogs: only for a server that does not have them in its own settings; they travel to it.
    :param session_id: open or join the session of this id; ``None`` for a new one.
    :param ids: the ids of its statements; ``None`` for random ones.
    :raises SparkUnavailable: the server does not answer.
    """
    with _reaching(url):
        from pyspark.sql.connect.session import SparkSession as Remote

        builder: Any = Remote.builder.remote(_address(url, session_id))
        if ids is not None:
            builder = builder._registerHook(lambda _session: _numbered(ids))
        session: SparkSession = builder.create()
        remote: Any = session
        _forget_at_exit(remote.client)
        _select_functions()
        for key, value in (catalogs or {}).items():
            session.conf.set(key, value)
        # Whatever the server's own settings are; it is also the first thing that needs the server.
        return without_substitution(session)


def _select_functions() -> None:
    """Have ``pyspark.sql.functions`` make columns for Spark Connect, as pyspark's own builder does.

    One process has functions of one kind: those of a local session that runs in it stay.
    """
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        os.environ[CONNECT_MODE] = "1"


def leave_session(session: SparkSession) -> None:
    """Release the results that are no longer needed and close the connection; the session itself stays."""
    remote: Any = session
    remote.client.close()


def end_session(url: str, session_id: str, *, within: timedelta) -> None:
    """Interrupt what runs in a session, wait until it has ended, and close the session for good.

    :param within: how long to wait for the statements to end.
    :raises SparkUnavailable: the server does not answer.
    :raises OrphanStillRunning: something still runs; call again.
    """
    with _reaching(url):
        from pyspark.errors.exceptions.connect import SparkConnectException
        from pyspark.sql.connect.client import SparkConnectClient

        client = SparkConnectClient(_address(url, session_id), retry_policy={"max_retries": RETRIES})
        _forget_at_exit(client)
        try:
            # Opens the session when it is not there: closing one that never was would not keep a late client out of it.
            client._analyze(method="spark_version")
            _end_statements(client, session_id, time.monotonic() + within.total_seconds(), _server(url))
            client.release_session()
        except SparkConnectException as error:
            if "SESSION_CLOSED" not in str(error):
                raise
        finally:
            client.close()


def _forget_at_exit(client: SparkConnectClient) -> None:
    """Keep pyspark from tidying up after its machine learning, which we do not use, when the process ends.

    It would wait ten minutes for a server that is away, and keep every client until then.
    """
    atexit.unregister(client._cleanup_ml_cache)


def _end_statements(client: SparkConnectClient, session_id: str, deadline: float, where: str) -> None:
    while True:
        client.interrupt_all()
        running = [operation for operation in operation_ids(session_id) if _is_there(client, operation)]
        if not running:
            return
        for operation in running:
            if time.monotonic() >= deadline:
                raise OrphanStillRunning(where, len(running))
            _await_end(client, operation, deadline)


def _is_there(client: SparkConnectClient, operation: str) -> bool:
    """Whether the server has a statement of this id, ended or not, without the error that it logs for an unknown one."""
    from grpc import RpcError
    from pyspark.sql.connect.proto import ReleaseExecuteRequest

    request = _request(client, ReleaseExecuteRequest(operation_id=operation))
    request.release_until.response_id = operation  # no response has this id, so nothing is released
    try:
        return bool(client._stub.ReleaseExecute(request, metadata=client._builder.metadata()).operation_id)
    except RpcError as error:
        if "INVALID_CURSOR" in str(error):
            return True
        raise


def _await_end(client: SparkConnectClient, operation: str, deadline: float) -> None:
    """Read the statement's answer to its end, which is when its thread on the server has ended, and have the server forget it."""
    from grpc import RpcError, StatusCode
    from pyspark.sql.connect.proto import ReattachExecuteRequest, ReleaseExecuteRequest

    limit = max(POLL_S, min(LONGEST_ATTACHED_S, deadline - time.monotonic()))
    metadata = client._builder.metadata()
    try:
        attach = _request(client, ReattachExecuteRequest(operation_id=operation))
        answer = client._stub.ReattachExecute(attach, timeout=limit, metadata=metadata)
        if not any(part.HasField("result_complete") for part in answer):
            return  # the server ends such a stream after a while; the statement goes on
    except RpcError as error:
        status: Any = error
        goes_on = status.code() in (StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED)
        if goes_on or "INVALID_CURSOR" in str(error) or "INVALID_HANDLE" in str(error):
            time.sleep(POLL_S)
            return
        # Any other error is how the statement ended.
    forget = _request(client, ReleaseExecuteRequest(operation_id=operation))
    forget.release_all.SetInParent()
    client._stub.ReleaseExecute(forget, metadata=metadata)


def _request(client: SparkConnectClient, request: Any) -> Any:
    request.session_id = client._session_id
    request.client_type = client._builder.userAgent
    request.user_context.user_id = client._user_id
    return request


def _numbered(ids: Iterator[str]) -> Any:
    from pyspark.sql.connect.session import SparkSession as Remote

    class Numbered(Remote.Hook):
        def on_execute_plan(self, request: Any) -> Any:
            request.operation_id = next(ids)
            return request

    return Numbered()


def _address(url: str, session_id: str | None) -> str:
    parts = [] if "user_id=" in url else [f"user_id={USER}"]
    parts += [] if session_id is None else [f"session_id={session_id}"]
    start = url if ";" in url else f"{url.rstrip('/')}/"
    return ";".join([start.rstrip(";"), *parts])


def _server(url: str) -> str:
    return public_address(url).rstrip("/")


def _secrets(url: str) -> list[str]:
    """The tokens in the address's parameters, and the parts of an unquoted one."""
    parameters = (each.partition("=") for each in url.split(";")[1:])
    return [value or name for name, _, value in parameters if not value or "token" in name]


@contextmanager
def _reaching(url: str) -> Iterator[None]:
    """:raises SparkUnavailable: the server does not answer, or the packages for it are missing."""
    version = check_pyspark()
    try:
        from grpc import RpcError
        from pyspark.errors import PySparkException

        failures = (PySparkException, RpcError)
    except ImportError as error:
        raise _lacking(version, error) from error
    try:
        yield
    except ImportError as error:
        raise _lacking(version, error) from error
    except failures as error:
        if "SESSION_CLOSED" in str(error):
            raise SparkUnavailable(
                f"The session on the Spark Connect server at {_server(url)} was closed: another process has taken this work over."
            ) from error
        text = redacted(str(error), _secrets(url))
        raise SparkUnavailable(
            f"The Spark Connect server at {_server(url)} does not respond: {type(error).__name__}: {text}. "
            "Check the address, and that the server is up."
        ) from error


def _lacking(version: str, error: ImportError) -> SparkUnavailable:
    return SparkUnavailable(
        f"A Spark Connect session needs more packages ({error}). Install them: pip install 'pyspark[connect]=={version}'."
    )
