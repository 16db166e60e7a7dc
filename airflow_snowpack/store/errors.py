"""Errors of the store."""

from __future__ import annotations

from pathlib import Path

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.redaction import redacted


class StoreError(SnowpackError, kind=Kind.UNAVAILABLE):
    """Base class of the store's errors.

    :ivar without_address: the message without the store's address or path, if it names one.
    """


class UnsupportedStore(StoreError, kind=Kind.MISCONFIGURED):
    """Unsupported database for the store."""

    def __init__(self, backend: str) -> None:
        super().__init__(
            f"The store cannot live in {backend!r}. Use a Postgres connection (postgresql+psycopg://…) "
            "or an SQLite file (sqlite:////absolute/path/snowpack.db)."
        )


class StoreFolderMissing(StoreError, kind=Kind.UNAVAILABLE):
    """The folder of the store's SQLite file does not exist."""

    def __init__(self, path: Path) -> None:
        advice = "Create the folder, or correct the path in the connection that [snowpack] store_conn_id names."
        self.without_address = f"The folder of the Snowpack store's SQLite file does not exist. {advice}"
        message = f"The folder {str(path.parent)!r} of the Snowpack store's SQLite file {path.name!r} does not exist."
        super().__init__(f"{message} {advice}")


class PoolerRefusesTransactions(StoreError, kind=Kind.MISCONFIGURED):
    """The connection pooler splits transactions."""

    def __init__(self, where: str) -> None:
        message = "refuses transactions of more than one statement, which the store needs. "
        advice = "Set `pool_mode = transaction` or `session` for its database, or connect to Postgres itself."
        self.without_address = f"The pooler in front of the Snowpack store {message}{advice}"
        super().__init__(f"The pooler at {where} in front of the Snowpack store {message}{advice}")


class StoreUnreachable(StoreError, kind=Kind.UNAVAILABLE):
    """The store does not answer."""

    def __init__(self, where: str, cause: BaseException) -> None:
        super().__init__(
            f"The Snowpack store at {where} cannot be reached: {redacted(' '.join(str(cause).split()))}. "
            "Check that the database is up and that [snowpack] store_conn_id names the right connection."
        )


class StoreDiskFull(StoreUnreachable, kind=Kind.UNAVAILABLE):
    """The disk of the store is full."""

    def __init__(self, where: str) -> None:
        message = "is full: nothing can be written. Free space on it, or move the store to a larger one."
        self.without_address = f"The disk of the Snowpack store {message}"
        StoreError.__init__(self, f"The disk of the Snowpack store at {where} {message}")


class StoreFileReplaced(StoreUnreachable, kind=Kind.UNAVAILABLE):
    """The embedded store's file was deleted or replaced while a process used it."""

    def __init__(self, where: str) -> None:
        message = (
            "was deleted or replaced while this process used it. The leases and locks of the process are lost. Restore the file "
            "if it was deleted, and restart the processes that use it."
        )
        self.without_address = f"The file of the Snowpack store {message}"
        StoreError.__init__(self, f"The file of the Snowpack store at {where} {message}")


class StoreTooSlow(StoreError, kind=Kind.UNAVAILABLE):
    """The store took too long to answer."""

    def __init__(self, where: str) -> None:
        message = (
            "is up, but did not finish this request in time. Narrow it: name a table, a DAG, a status or a period, or request "
            "fewer rows. If it is narrow already, the database is overloaded; try again later."
        )
        self.without_address = f"The Snowpack store {message}"
        super().__init__(f"The Snowpack store at {where} {message}")


class SchemaOutOfDate(StoreError, kind=Kind.UNAVAILABLE):
    """The store's schema is out of date."""

    def __init__(self, where: str, found: str | None, needed: str) -> None:
        state = f"is at revision {found}" if found else "has no Snowpack tables yet"
        message = f"{state}, and this version of airflow-snowpack needs revision {needed}. Run `airflow snowpack db upgrade`."
        self.without_address = f"The Snowpack store {message}"
        super().__init__(f"The Snowpack store at {where} {message}")


class UnknownRevision(StoreError, kind=Kind.UNAVAILABLE):
    """The store's schema is newer than this version."""

    def __init__(self, where: str, found: str, newest: str) -> None:
        message = (
            f"is at revision {found!r}, which this version of airflow-snowpack does not have; its newest is {newest!r}. Nothing "
            "was changed. If a newer version upgraded the store, there is nothing to upgrade. A store from before release 0.1 "
            "cannot be upgraded: delete the SQLite file, or set [snowpack] store_conn_id to an empty database."
        )
        self.without_address = f"The Snowpack store {message}"
        super().__init__(f"The Snowpack store at {where} {message}")


class InvalidCursor(SnowpackError, kind=Kind.INVALID):
    """Invalid cursor."""

    def __init__(self, cursor: str) -> None:
        super().__init__(f"The cursor {cursor[:80]!r} is not one that a list returned. Omit it to start with the first page.")
