"""Counts what a unit of work does: statements, connections, loads of table metadata, reads of manifests, steps of SQLite.

    with counting(store.engine) as counts:
        jobs.submit(table, ["expire_snapshots"])
    counts.statements

Counts do not depend on the machine or on what else runs on it. They cover every engine and every catalog of the process, also in
other threads; what belongs to the store is recognised by the engine's address.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.store.pg_prepared import PgPrepared

STEPS_BETWEEN_CALLS = 100
MANIFEST_LIST = "snap-"
TRANSACTION_WORDS = ("BEGIN", "COMMIT", "ROLLBACK")


@dataclass
class Counts:
    """What was counted.

    :ivar statements: that the store's database got, without the ones that begin and end transactions.
    :ivar opened: connections to the store that were opened.
    :ivar at_once: how many connections to the store were open at the same time, at most.
    :ivar steps: thousands of steps of SQLite's virtual machine in the store: a walk over a million rows is 5,000 or more. 0 on
        Postgres, which reports no such number.
    :ivar catalog_statements: that the databases of catalogs got; ``catalog_opened``: connections to them that were opened.
    :ivar loads: tables whose metadata file was read.
    :ivar manifests: manifests that were opened, each as often as it was.
    """

    statements: int = 0
    opened: int = 0
    at_once: int = 0
    steps: float = 0.0
    catalog_statements: int = 0
    catalog_opened: int = 0
    loads: int = 0
    manifests: int = 0
    texts: list[str] = field(default_factory=list, repr=False)
    _open: int = 0

    def numbers(self) -> Mapping[str, float]:
        """The counts by name."""
        return {name: value for name, value in asdict(self).items() if name not in ("texts", "_open")}


@contextmanager
def counting(engine: sa.Engine) -> Iterator[Counts]:
    """Count as long as the block lasts.

    :param engine: the store's. Engines with the same address, such as those of other processes' stores, count as the store too.
    """
    counts = Counts()
    with ExitStack() as stack:
        stack.enter_context(_statements(counts, engine.url))
        stack.enter_context(_connections(counts, engine.url))
        stack.enter_context(_tables(counts))
        yield counts


@contextmanager
def _statements(counts: Counts, store: sa.URL) -> Iterator[None]:
    def count(conn: sa.Connection, _cursor: Any, text: str, *_: Any) -> None:
        if text.startswith(TRANSACTION_WORDS):
            return
        if _same(conn.engine.url, store):
            counts.statements += 1
            counts.texts.append(text)
        else:
            counts.catalog_statements += 1

    run = PgPrepared._run

    def direct(self: PgPrepared, conn: sa.Connection, values: Mapping[str, Any]) -> Any:
        count(conn, None, self.text)  # below the driver's cursor, where SQLAlchemy reports nothing
        return run(self, conn, values)

    sa.event.listen(sa.Engine, "before_cursor_execute", count)
    PgPrepared._run = direct  # type: ignore[method-assign]  # put back below
    try:
        yield
    finally:
        PgPrepared._run = run  # type: ignore[method-assign]
        sa.event.remove(sa.Engine, "before_cursor_execute", count)


@contextmanager
def _connections(counts: Counts, store: sa.URL) -> Iterator[None]:
    stepped: list[Any] = []

    def step() -> int:
        counts.steps += STEPS_BETWEEN_CALLS / 1_000
        return 0

    def opened(driver: Any, record: Any) -> None:
        if _belongs_to(driver, store):
            counts.opened += 1
            counts._open += 1
            counts.at_once = max(counts.at_once, counts._open)
        else:
            counts.catalog_opened += 1

    def closed(driver: Any, record: Any) -> None:
        if _belongs_to(driver, store):
            counts._open -= 1

    def checked_out(driver: Any, record: Any, proxy: Any) -> None:
        if hasattr(driver, "set_progress_handler") and _belongs_to(driver, store):
            driver.set_progress_handler(step, STEPS_BETWEEN_CALLS)
            stepped.append(driver)

    listened = (("connect", opened), ("close", closed), ("checkout", checked_out))
    for name, listener in listened:
        sa.event.listen(sa.Pool, name, listener)
    try:
        yield
    finally:
        for name, listener in listened:
            sa.event.remove(sa.Pool, name, listener)
        for driver in stepped:
            _unset(driver)


@contextmanager
def _tables(counts: Counts) -> Iterator[None]:
    from pyiceberg.avro.file import AvroFile
    from pyiceberg.serializers import FromInputFile

    read, opened = FromInputFile.__dict__["table_metadata"], AvroFile.__init__

    def load(input_file: Any, *arguments: Any, **named: Any) -> Any:
        counts.loads += 1
        return read.__func__(input_file, *arguments, **named)

    def open_avro(self: Any, input_file: Any, *arguments: Any, **named: Any) -> None:
        counts.manifests += not PurePosixPath(input_file.location).name.startswith(MANIFEST_LIST)
        opened(self, input_file, *arguments, **named)

    FromInputFile.table_metadata = staticmethod(load)  # type: ignore[method-assign]  # put back below
    AvroFile.__init__ = open_avro  # type: ignore[method-assign]
    try:
        yield
    finally:
        FromInputFile.table_metadata = read  # type: ignore[method-assign]
        AvroFile.__init__ = opened  # type: ignore[method-assign]


def _same(one: sa.URL, other: sa.URL) -> bool:
    return (one.host, one.port, one.database) == (other.host, other.port, other.database)


def _belongs_to(driver: Any, store: sa.URL) -> bool:
    """Whether a connection of the driver leads to the store's database."""
    if store.get_backend_name() == "sqlite":
        row = driver.execute("PRAGMA database_list").fetchone() if hasattr(driver, "set_progress_handler") else None
        return row is not None and row[2] == store.database
    return hasattr(driver, "info") and driver.info.dbname == store.database


def _unset(driver: Any) -> None:
    import sqlite3

    try:
        driver.set_progress_handler(None, STEPS_BETWEEN_CALLS)
    except sqlite3.ProgrammingError:
        return  # closed meanwhile, or of another thread: what it still counts is not read
