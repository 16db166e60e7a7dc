"""What the store needs of a session of Postgres, and how it does without one behind a pooler, such as PgBouncer.

    connection.behind_pooler = is_behind_pooler(connection)
    conn.exec_driver_sql(begin_behind_pooler(session_settings(patience)))

A pooler may give each transaction another session (``pool_mode = transaction``). Settings would then be lost, or apply to the
transactions of other clients, and a prepared statement would not be there. So behind a pooler, whatever its mode, the invariant
is: **nothing outlives a transaction.** Each statement is part of one, which begins with the settings (``SET LOCAL``, in the round
trip of its ``BEGIN``), and nothing is prepared. Locks end with their transaction in any case.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_snowpack.store.errors import PoolerRefusesTransactions

if TYPE_CHECKING:
    from airflow_snowpack.store.patience import Patience


def session_settings(patience: Patience | None) -> dict[str, str]:
    """Return the settings of a session or, behind a pooler, of each transaction."""
    settings = {
        # Every statement of the store looks rows up by an index. Without statistics, as for a queue filled a moment ago, Postgres
        # would rather sort all waiting rows at each claim; and a plan made on an empty table lives on when it is not empty.
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
        "plan_cache_mode": "force_generic_plan",
        # Nor is one compiled: what it costs is overestimated, and compiling takes longer than any of them runs.
        "jit": "off",
        "datestyle": "iso",  # the hot statements read moments as ISO 8601
        # A statement after a lock must see what was committed before the lock was had, whatever the database's default is.
        "default_transaction_isolation": "'read committed'",
    }
    if patience is not None:
        settings["statement_timeout"] = str(int(patience.statement.total_seconds() * 1000))
    return settings


def begin_behind_pooler(settings: Mapping[str, str]) -> str:
    """Return the statements that begin a transaction with these settings."""
    local = [f"SET LOCAL {name} = {value}" for name, value in settings.items() if name != "default_transaction_isolation"]
    return "; ".join(["BEGIN ISOLATION LEVEL READ COMMITTED", *local])


def is_behind_pooler(connection: Any) -> bool:
    """Whether a connection of psycopg's ends at a pooler: its number of the session is not the one that Postgres has."""
    (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone()
    return bool(pid != connection.info.backend_pid)


def check_transactions(connection: Any) -> None:
    """Check that the pooler lets a transaction have more than one statement.

    :raises PoolerRefusesTransactions: it does not (``pool_mode = statement``).
    """
    import psycopg

    try:
        connection.execute("BEGIN")
        connection.execute("ROLLBACK")
    except psycopg.Error as error:
        if "pooling mode" not in str(error):
            raise
        raise PoolerRefusesTransactions(f"{connection.info.host}:{connection.info.port}") from error
