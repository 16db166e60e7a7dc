"""Statements on a HiveServer2 endpoint: a Spark Thrift Server, or Kyuubi, which speaks the same protocol.

    >>> server = ThriftServer("spark_thrift", "spark.example.com", 10000)
    >>> with server.opened(job_id, attempt) as statements:
    ...     statements.rows("SHOW NAMESPACES IN lake")
    >>> end_attempts(server, job_id, [attempt], within=timedelta(seconds=30))    # when the worker was killed

A statement runs asynchronously, and its client polls its state. A cancel interrupts the statement's thread on the server and its
jobs, and when the connection of a client is lost, the server ends the session, which cancels its statement as well. But the
server reports a cancelled statement as ended at once, although its thread may first finish one commit or deletion, and no request
of the protocol returns when it has. So the invariant: the work of an attempt has ended if its last statement ended by itself, or
:data:`SETTLING` after its cancel or the loss of its client, as far as the server can be reached.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

from airflow_snowpack.redaction import redacted
from airflow_snowpack.spark.config import SUBSTITUTION
from airflow_snowpack.spark.errors import JavaCause, OrphanStillRunning, ServerLost, SparkFailed, SparkUnavailable
from airflow_snowpack.spark.literals import literal, with_literals
from airflow_snowpack.spark.statements import FILE_PATH, LAST_MODIFIED, UNDEFINED, Statements, new_view
from airflow_snowpack.spark.work import further_causes, of_causes

if TYPE_CHECKING:
    from impala.hiveserver2 import HiveServer2Cursor

USER = "airflow-snowpack"
SETTLING = timedelta(seconds=30)
"""How long the thread of a cancelled statement may take to finish one commit or deletion."""
ANSWER_LIMIT_S = 600
"""How long one request may take. Kyuubi starts an engine before it answers the first one."""
FIRST_POLL_S, LONGEST_POLL_S = 0.02, 1.0
EXECUTING = frozenset({"INITIALIZED_STATE", "PENDING_STATE", "RUNNING_STATE"})
CANCELLED = frozenset({"CANCELED_STATE", "CLOSED_STATE"})
SESSION_CONF = {SUBSTITUTION: "false", "spark.sql.parser.escapedStringLiterals": "false"}
ASYNCHRONOUS = "spark.sql.hive.thriftServer.async"
OUTERMOST = re.compile(
    r"^[^\n]*?Error running query: (?:\[[\w.]+\] )?(?P<class_name>[\w.$]+)(?:: (?P<message>.*?))?(?=\n\s+at |\Z)", re.DOTALL
)

_ended_at: dict[str, float] = {}
"""When the last statement of an attempt of this process was cancelled or lost; 0 if it ended by itself."""


@dataclass(frozen=True, slots=True)
class ThriftServer:
    """A HiveServer2 endpoint of Spark.

    :param name: how other processes find its address, such as the id of an Airflow connection.
    :param user, password: of an endpoint that has users.
    :param auth_mechanism: ``PLAIN``, ``LDAP``, ``GSSAPI`` or ``NOSASL``.
    :param settling: see :data:`SETTLING`.
    """

    name: str
    host: str
    port: int = 10000
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    auth_mechanism: str = "PLAIN"
    kerberos_service_name: str = "hive"
    use_ssl: bool = False
    settling: timedelta = SETTLING

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @contextmanager
    def opened(self, job_id: str, attempt: int) -> Iterator[ThriftStatements]:
        """Open a session for statements of this attempt at a job.

        :raises SparkUnavailable: the server does not answer, or runs statements in a way in which none could be cancelled.
        """
        key = _key(job_id, attempt)
        _ended_at.setdefault(key, 0.0)
        with self._cursor() as cursor:
            yield ThriftStatements(cursor, self.address, key)

    def check_client(self) -> tuple[type[Exception], ...]:
        """Return what requests raise, see :func:`client_errors`.

        :raises SparkUnavailable: the client is not installed.
        """
        try:
            return client_errors()
        except ImportError as error:
            raise SparkUnavailable(
                f"A HiveServer2 connection needs more packages ({error}). Install them: pip install 'airflow-snowpack[thrift]'."
            ) from error

    def check(self) -> None:
        """:raises SparkUnavailable: the server does not answer."""
        with self._cursor():
            return

    @contextmanager
    def _cursor(self) -> Iterator[HiveServer2Cursor]:
        unreachable = self.check_client()
        with ExitStack() as opened:
            try:
                cursor = self._connected(opened)
            except unreachable as error:
                text = redacted(str(error), [self.password] if self.password else [])
                raise SparkUnavailable(
                    f"The Spark Thrift Server at {self.address} does not respond: {type(error).__name__}: {text}. "
                    "Check the address and the login, and that the server is up."
                ) from error
            yield cursor

    def _connected(self, opened: ExitStack) -> HiveServer2Cursor:
        """Return a prepared cursor, which ends with the stack."""
        from impala.dbapi import connect

        connection = connect(
            host=self.host,
            port=self.port,
            timeout=ANSWER_LIMIT_S,
            use_ssl=self.use_ssl,
            auth_mechanism=self.auth_mechanism,
            user=self.user or USER,
            password=self.password or "none",  # PLAIN needs one, and a server without users takes any
            kerberos_service_name=self.kerberos_service_name,
            retries=1,
        )
        opened.callback(_close, connection)
        cursor = connection.cursor(user=self.user or USER)
        opened.callback(_close, cursor)
        for name, value in SESSION_CONF.items():
            cursor.execute(f"SET {name}={value}")
        cursor.execute(f"SET {ASYNCHRONOUS}")
        if cursor.fetchall()[0][1] == "false":
            raise SparkUnavailable(
                f"The Spark Thrift Server at {self.address} has {ASYNCHRONOUS}=false, so that no statement could be cancelled. "
                "Remove this setting from the server."
            )
        return cursor


class ThriftStatements(Statements):
    """The statements of one session. Any thread may cancel them; all else belongs to one thread."""

    def __init__(self, cursor: HiveServer2Cursor, address: str, attempt: str) -> None:
        self._cursor = cursor
        self._address = address
        self._attempt = attempt
        self._cancelled = Event()

    def rows(self, sql: str, args: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Run a statement and return its rows by column.

        :raises SparkFailed: it failed, or was cancelled.
        :raises ServerLost: the connection was lost while it ran.
        """
        try:
            self._run(with_literals(sql, args or {}))
            columns = [column[0] for column in self._cursor.description or ()]
            # A DDL has a description of a column "Result", and no column.
            found = [] if columns == ["Result"] else self._cursor.fetchall()
            self._cursor.close_operation()
        except client_errors() as error:
            self._doubt()
            raise ServerLost(self._address, redacted(f"{type(error).__name__}: {error}")) from error
        except SparkFailed:
            raise
        except BaseException:
            self._doubt()  # such as a task's time limit: nothing waits for the statement any more
            raise
        return [dict(zip(columns, row, strict=True)) for row in found]

    def ordered_rows(self, sql: str, args: Mapping[str, Any], column: str) -> Iterator[dict[str, Any]]:
        return iter(sorted(self.rows(sql, args), key=lambda row: str(row[column])))

    def view_of_files(self, paths: Sequence[str]) -> str:
        view = new_view()
        # One literal, because the parser takes long for many. A path with the separator, as an object's key may have it, would be
        # two: it is left alone.
        joined = chr(0).join(path for path in paths if chr(0) not in path)
        listed = f"explode(split({literal(joined)}, {literal(chr(0))}))"
        self.rows(f"CREATE TEMPORARY VIEW {view} AS SELECT {listed} AS {FILE_PATH}, {LAST_MODIFIED}")
        return view

    def setting(self, name: str) -> str | None:
        (row,) = self.rows(f"SET {name}")
        return None if row["value"] == UNDEFINED else str(row["value"])

    def change(self, name: str, value: str | None) -> None:
        self.rows(f"RESET {name}" if value is None else f"SET {name}={value}")

    def tag(self, tag: str) -> None:
        """Do nothing: a session runs one statement at a time, which is the one to cancel."""

    def untag(self, tag: str) -> None:
        """Do nothing."""

    def cancel(self, tag: str) -> None:
        # The thread that polls the state sends the request: a connection belongs to one thread.
        self._cancelled.set()

    def _run(self, sql: str) -> None:
        """Run a statement to its end."""
        self._cursor.execute_async(sql)
        pause = FIRST_POLL_S
        while (state := self._state()) in EXECUTING:
            if self._cancelled.wait(pause):
                self._cursor.cancel_operation(reset_state=False)
                time.sleep(FIRST_POLL_S)
            pause = min(pause * 1.5, LONGEST_POLL_S)
        if state in CANCELLED:
            self._doubt()
            raise SparkFailed(f"The statement was cancelled on the Spark Thrift Server at {self._address}.")
        if state != "FINISHED_STATE":
            raise self._failure()

    def _state(self) -> str:
        try:
            return str(self._cursor.status())
        except KeyError:  # the client does not know the state of a statement that took longer than the server allows
            return "CANCELED_STATE"

    def _failure(self) -> SparkFailed:
        from impala.error import OperationalError

        try:
            self._cursor.fetchall()
        except OperationalError as error:
            return _translated(str(error))
        return SparkFailed("The statement failed, and the server reports no reason.")

    def _doubt(self) -> None:
        _ended_at[self._attempt] = time.monotonic()


def end_attempts(server: ThriftServer, job_id: str, attempts: Sequence[int], *, within: timedelta) -> None:
    """Return when the statements of attempts at a job have ended.

    :param within: how long to wait.
    :raises SparkUnavailable: the server does not answer.
    :raises OrphanStillRunning: something may still run; call again.
    """
    keys = [_key(job_id, attempt) for attempt in attempts]
    if any(_ended_at.get(key) != 0.0 for key in keys):
        server.check()
        # Of the attempts of other processes, this one first learns now that their clients are gone.
        ended = max(_ended_at.setdefault(key, time.monotonic()) for key in keys)
        left = ended + server.settling.total_seconds() - time.monotonic()
        time.sleep(max(0.0, min(left, within.total_seconds())))
        if left > within.total_seconds():
            raise OrphanStillRunning(server.address, 1)
    for key in keys:
        _ended_at.pop(key, None)


def client_errors() -> tuple[type[Exception], ...]:
    """Return what a request raises when the server cannot be reached, or refuses it."""
    from impala.error import Error
    from thrift.Thrift import TException

    return (Error, TException, OSError)


def _close(client: Any) -> None:
    with suppress(*client_errors()):  # the server may have gone; the end of the connection ends the session, too
        client.close()


def _key(job_id: str, attempt: int) -> str:
    return f"{job_id}/{attempt}"


def _translated(text: str) -> SparkFailed:
    """Return the failure that the server reports as a Java stack trace."""
    outermost = OUTERMOST.match(text)
    if outermost is None:
        return SparkFailed(redacted(text.partition("\n")[0]))
    return of_causes((JavaCause(outermost["class_name"], (outermost["message"] or "").strip()), *further_causes(text)))
