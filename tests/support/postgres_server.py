"""A PostgreSQL of one's own, from PyPI, on a free port of 127.0.0.1: it can be stopped, frozen and brought back.

It runs under an own user when the tests run as root, and its files are thrown away, hence no fsync.
"""

from __future__ import annotations

import os
import signal
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
from psycopg.errors import InsufficientPrivilege
from sqlalchemy.engine import URL, make_url

from examples.cluster.postgres import Postgres

TEMPORARY = tempfile.gettempdir()
"""As the tests begin: a test may set a folder whose path is too long for the server's socket."""
# Autovacuum would let the plans that tests look at depend on when it came by, and on what it had found of emptied tables.
DEFAULTS: dict[str, str | int] = {"fsync": "off", "max_connections": 200, "autovacuum": "off"}


class PostgresServer(Postgres):
    """Makes its data folder in ``home``, which the server's user must be able to walk to.

    :param settings: parameters of the server, beside those that all tests need.
    """

    def __init__(self, home: Path, **settings: str | int) -> None:
        super().__init__(home, DEFAULTS | settings, signal.SIGQUIT)
        self.log = self.server.log
        self._frozen: list[int] = []

    def freeze(self) -> None:
        """Every process of the server stands still: connections stay open, new ones are accepted, and nothing is answered."""
        self._frozen = [self.server.pid, *(child.pid for child in psutil.Process(self.server.pid).children(recursive=True))]
        for pid in self._frozen:
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        while self._frozen:
            _signal(self._frozen.pop(), signal.SIGCONT)


@contextmanager
def running_server(**settings: str | int) -> Iterator[PostgresServer]:
    """A server that runs inside of the block.

    :param settings: see :class:`PostgresServer`.
    """
    # Not pytest's temporary folder: the server's user must be able to walk to it, and pytest closes its own to all others.
    with tempfile.TemporaryDirectory(prefix="snowpack-pg-", dir=TEMPORARY) as home:
        server = PostgresServer(Path(home), **settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def new_database(server_url: str, template: str = "template1") -> Iterator[URL]:
    """A database of a server, dropped afterwards together with whatever is still connected to it.

    :param template: the database that it is a copy of; nobody may be connected to it. A copy of the files is the fastest: the
        template is small and the server does not sync.
    """
    server = make_url(server_url)
    name = _new_name()
    admin = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield server.set(database=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _new_name() -> str:
    return f"snowpack_{uuid.uuid4().hex[:12]}"


# What a test may have changed beside rows: the revision, tables and their columns and indexes, settings, statistics.
STATE_OF_DATABASE = """
    WITH ours AS (SELECT * FROM pg_class WHERE relnamespace = 'public'::regnamespace),
         fields AS (SELECT ours.oid, attnum, concat_ws(' ', ours.oid, relname, relkind, attname, atttypid, attnotnull) AS said
                      FROM ours JOIN pg_attribute ON attrelid = ours.oid)
    SELECT (SELECT string_agg(kept::text, ',' ORDER BY kept) FROM {kept} AS kept),
           (SELECT md5(string_agg(said, ',' ORDER BY oid, attnum)) FROM fields),
           (SELECT count(*) FROM pg_constraint),
           (SELECT count(*) FROM pg_trigger),
           (SELECT count(*) FROM pg_proc),
           (SELECT count(*) FROM pg_db_role_setting JOIN pg_database ON pg_database.oid = setdatabase
             WHERE datname = current_database()),
           (SELECT count(*) FROM pg_statistic WHERE starelid IN (SELECT oid FROM ours))"""
WRITTEN_TABLES = """
    SELECT string_agg(quote_ident(relname), ', ') FROM pg_class
     WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> %s AND pg_relation_size(oid) > 0"""
RESET_SEQUENCES = """
    SELECT setval(format('%I', sequencename)::regclass, start_value, false) FROM pg_sequences WHERE last_value IS NOT NULL"""


class Copies:
    """Copies of a database with tables and no rows, for one test after the other.

    To make a database takes longer than most of the tests that use it. So one that a test has only written rows to is emptied and
    given to the next test; any other is dropped, as are all on a server of whose statistics we may not see enough.

    :param kept: the table whose rows all copies have.
    """

    def __init__(self, server_url: str, template: str, kept: str) -> None:
        self._server, self._template, self._kept = make_url(server_url), template, kept
        self._state_query = STATE_OF_DATABASE.format(kept=kept)
        self._free: list[str] = []
        self._state: tuple[object, ...] | None = None
        self._admin = psycopg.connect(self._address(self._server.database), autocommit=True)

    @contextmanager
    def one(self) -> Iterator[URL]:
        """Give a copy to a test, and disconnect afterwards whatever is still connected to it."""
        name = self._free.pop() if self._free else self._made()
        yield self._server.set(database=name)
        disconnect = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = %s"
        self._admin.execute(disconnect, [name])
        renamed = _new_name()  # a thread that the test has left running finds no database to write to
        try:
            self._admin.execute(f"ALTER DATABASE {name} RENAME TO {renamed}")
        except psycopg.Error:  # the test dropped it, or such a thread was faster
            renamed = name
        if renamed != name and self._is_emptied(renamed):
            self._free.append(renamed)
        else:
            self._admin.execute(f"DROP DATABASE IF EXISTS {renamed} WITH (FORCE)")

    def close(self) -> None:
        for name in self._free:
            self._admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        self._admin.close()

    def _made(self) -> str:
        name = _new_name()
        self._admin.execute(f"CREATE DATABASE {name} TEMPLATE {self._template} STRATEGY FILE_COPY")
        if self._state is None:
            with psycopg.connect(self._address(name), autocommit=True) as copy, suppress(InsufficientPrivilege):
                self._state = copy.execute(self._state_query).fetchone()
        return name

    def _is_emptied(self, name: str) -> bool:
        """Delete all rows, unless the test has changed more than rows."""
        try:
            copy = psycopg.connect(self._address(name), autocommit=True)
        except psycopg.OperationalError:  # the test closed it to all connections
            return False
        with copy:
            if self._state is None or copy.execute(self._state_query).fetchone() != self._state:
                return False
            (written,) = copy.execute(WRITTEN_TABLES, [self._kept]).fetchone() or (None,)
            if written:
                copy.execute(f"TRUNCATE {written} CASCADE")
            copy.execute(RESET_SEQUENCES)
            copy.execute("SELECT pg_stat_reset()")
        return True

    def _address(self, database: str | None) -> str:
        return self._server.set(drivername="postgresql", database=database).render_as_string(hide_password=False)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # a worker of the server's that has just ended by itself
        os.kill(pid, number)
