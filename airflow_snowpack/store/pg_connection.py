"""Connections to Postgres that do not wait beyond a deadline, and that work behind PgBouncer.

A pooler may run each transaction in another session (``pool_mode = transaction``). Settings would then be lost, or apply to other
clients' transactions, and prepared statements would be missing. Behind a pooler of any mode, the invariant therefore is:
**nothing outlives a transaction.** Each statement is part of a transaction, which begins with the settings (``SET LOCAL``, in the
round trip of its ``BEGIN``), and nothing is prepared. Locks end with their transaction in any case.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Mapping
from typing import Any

import psycopg
from sqlalchemy import URL

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.store.deadlines import Deadlines, deadline
from airflow_snowpack.store.errors import PoolerRefusesTransactions


class DeadlineConnection(psycopg.Connection[Any]):
    """A connection that closes itself if the server does not answer by the deadline of the current work.

    :ivar behind_pooler: whether it ends at a pooler instead of Postgres, so that nothing may outlive a transaction.
    """

    behind_pooler = False

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        end = deadline()
        return super().wait(gen if end is None else self._until(end, gen), *arguments, **options)

    def _until(self, end: float, gen: Any) -> Generator[Any, Any, Any]:
        # psycopg wakes its generators ten times a second, even without data.
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server did not answer in time")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value


class Login:
    """Opens connections with the store's credentials; once the server refuses these, with those that its source has by then.

    :param renewed: reads the address of the store again; ``None`` where its credentials cannot change.
    """

    def __init__(self, renewed: Callable[[], URL] | None = None) -> None:
        self._renewed = renewed
        self._credentials: dict[str, str | None] = {}

    def connect(self, _dialect: Any, _record: Any, arguments: Any, parameters: Mapping[str, Any]) -> DeadlineConnection:
        """Open a connection without waiting beyond the current deadline, such as the end of a lease."""
        parameters = {**parameters, **self._credentials}  # a copy: SQLAlchemy passes the same dictionary for each connection
        try:
            return _connect(arguments, parameters)
        except psycopg.OperationalError as refused:
            # libpq keeps no SQLSTATE of a refused connection, and the message is in the server's language.
            if self._renewed is None or refused.pgconn is None or not refused.pgconn.used_password:
                raise
            try:
                url = self._renewed()
            except SnowpackError:  # Airflow may be unreachable too
                raise refused from None
            credentials = {"user": url.username, "password": url.password}
            if credentials == {name: parameters.get(name) for name in credentials}:
                raise
            self._credentials = credentials
            return _connect(arguments, {**parameters, **credentials})


def _connect(arguments: Any, parameters: dict[str, Any]) -> DeadlineConnection:
    end = deadline()
    if end is not None:
        left_s = end - time.monotonic()
        if left_s <= 0:
            raise psycopg.OperationalError("the server did not answer in time")
        parameters = {**parameters, "connect_timeout": min(parameters["connect_timeout"], math.ceil(left_s))}
    return DeadlineConnection.connect(*arguments, **parameters)


def configure(settings: Mapping[str, str], connection: Any, _record: Any) -> None:
    """Apply the settings to a new connection or, behind a pooler, check the pooler's mode."""
    connection.behind_pooler = is_behind_pooler(connection)
    if connection.behind_pooler:
        check_transactions(connection)
    else:
        connection.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))


def session_settings(deadlines: Deadlines | None) -> dict[str, str]:
    """Return the settings of a session or, behind a pooler, of each transaction."""
    settings = {
        # Every statement of the store uses an index. Without statistics, as for a queue that was just filled, Postgres would sort
        # all waiting rows at each claim, and a plan made for an empty table stays in use when it is no longer empty.
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "plan_cache_mode": "force_generic_plan",
        # No JIT: Postgres overestimates the costs, and compiling takes longer than any statement runs.
        "jit": "off",
        "datestyle": "iso",  # the hot statements parse timestamps as ISO 8601
        # After waiting for a lock, a statement must see what was committed before, whatever the database's default.
        "default_transaction_isolation": "'read committed'",
    }
    if deadlines is not None:
        settings["statement_timeout"] = str(int(deadlines.statement.total_seconds() * 1000))
    return settings


def begin_behind_pooler(settings: Mapping[str, str]) -> str:
    """Return the statements that begin a transaction with these settings."""
    local = [f"SET LOCAL {name} = {value}" for name, value in settings.items() if name != "default_transaction_isolation"]
    return "; ".join(["BEGIN ISOLATION LEVEL READ COMMITTED", *local])


def is_behind_pooler(connection: Any) -> bool:
    """Return whether a psycopg connection ends at a pooler: then its process id differs from the one in Postgres."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    return bool(pid != connection.info.backend_pid)


def check_transactions(connection: Any) -> None:
    """:raises PoolerRefusesTransactions: the pooler splits transactions (``pool_mode = statement``)."""
    try:
        connection.execute("BEGIN")
        connection.execute("ROLLBACK")
    except psycopg.Error as error:
        if "pooling mode" not in str(error):
            raise
        raise PoolerRefusesTransactions(f"{connection.info.host}:{connection.info.port}") from error
