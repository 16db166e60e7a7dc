"""The tables: made by migrations, checked when the store opens."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from airflow_snowpack.api.problems import message_for_clients
from airflow_snowpack.store import (
    Deadlines,
    SchemaOutOfDate,
    Store,
    UnknownRevision,
    check_schema,
    migrate,
    open_store,
    opening,
    tables,
    upgrade_schema,
)
from airflow_snowpack.store.deadlines import deadline
from airflow_snowpack.store.migrate import SCRIPTS, VERSION_TABLE, current_revision
from airflow_snowpack.store.opening import open_engine
from airflow_snowpack.store.schema import REVISION, metadata


def set_revision(url: str, revision: str) -> None:
    """Let the database say that it is at this revision."""
    engine = open_engine(url)
    with engine.begin() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '{revision}'")
    engine.dispose()


@pytest.fixture
def empty(empty_store_url: str) -> Store:
    return Store(open_engine(empty_store_url))


def test_the_migrations_make_exactly_the_tables_that_the_code_uses(empty: Store) -> None:
    upgrade_schema(empty)

    with empty.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
        assert compare_metadata(context, metadata) == []


def test_indexes_come_in_the_order_of_the_code_so_that_databases_plan_alike_everywhere(empty_sqlite_url: str) -> None:
    store = Store(open_engine(empty_sqlite_url))
    upgrade_schema(store)

    query = "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'jobs' AND sql IS NOT NULL"
    made = [row.name for row in store.all(sa.text(query))]
    declared = re.findall(r'"(ix_jobs_\w+)"', (Path(tables.__path__[0]) / "jobs.py").read_text())
    assert len(made) > 5
    assert made == declared


def test_no_migration_takes_away_what_the_previous_version_uses_during_a_rolling_deployment() -> None:
    taken = re.compile(r"op\.(drop_table|drop_column|alter_column|rename_table)\b|DROP (TABLE|COLUMN)|RENAME", re.IGNORECASE)
    migrations = sorted((Path(SCRIPTS) / "versions").glob("*.py"))

    assert migrations
    assert {path.name: found[0] for path in migrations if (found := taken.search(path.read_text()))} == {}


def test_the_revision_that_the_code_needs_is_the_newest_migration() -> None:
    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))

    assert ScriptDirectory.from_config(config).get_current_head() == REVISION


def test_upgrading_twice_changes_nothing(empty: Store) -> None:
    upgrade_schema(empty)
    upgrade_schema(empty)

    assert current_revision(empty) == REVISION


def test_an_upgrade_that_fails_half_way_leaves_nothing_behind(empty: Store) -> None:
    with empty.engine.begin() as conn:
        conn.exec_driver_sql("CREATE TABLE switches (name TEXT)")

    with pytest.raises(sa.exc.DBAPIError):
        upgrade_schema(empty)
    assert sa.inspect(empty.engine).get_table_names() == ["switches"]


def test_postgres_without_tables_names_the_command_that_makes_them(empty_postgres_database: str) -> None:
    with pytest.raises(SchemaOutOfDate, match=r"has no Snowpack tables yet.*`airflow snowpack db upgrade`"):
        open_store(empty_postgres_database)


def test_an_old_schema_is_named_with_the_command_and_without_the_password(
    empty_postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = sa.make_url(empty_postgres_database).set(password="s3cret")
    store = Store(open_engine(url))
    upgrade_schema(store)
    monkeypatch.setattr(migrate, "REVISION", "9000_later")

    with pytest.raises(SchemaOutOfDate, match=rf"is at revision {REVISION}.*needs revision 9000_later.*db upgrade") as caught:
        check_schema(store)
    assert "s3cret" not in str(caught.value)
    store.close()


def test_a_newer_schema_is_accepted_because_migrations_only_add(store_url: str) -> None:
    set_revision(store_url, "9999_later")

    open_store(store_url).close()


@pytest.mark.parametrize("revision", ["9999_later", "0021_quarantine"])
def test_an_upgrade_refuses_a_revision_that_it_does_not_have_and_says_what_to_do(store_url: str, revision: str) -> None:
    set_revision(store_url, revision)

    expected = rf"at revision '{revision}'.*newest is '{REVISION}'\. Nothing was changed.*newer version.*empty database"
    with Store(open_engine(store_url)) as store:
        with pytest.raises(UnknownRevision, match=expected):
            upgrade_schema(store)
        assert current_revision(store) == revision


def test_a_store_of_a_development_version_is_refused(store_url: str) -> None:
    set_revision(store_url, "0021_quarantine")

    with pytest.raises(UnknownRevision, match="cannot be upgraded") as caught:
        open_store(store_url)
    assert "snowpack" in str(caught.value)
    assert str(sa.make_url(store_url).database) not in message_for_clients(caught.value)


def test_two_processes_that_upgrade_an_empty_database_at_once_both_find_it_ready(empty_store_url: str) -> None:
    def upgrade(_: int) -> str | None:
        with Store(open_engine(empty_store_url)) as store:
            upgrade_schema(store)
            return current_revision(store)

    with ThreadPoolExecutor(2) as processes:
        assert list(processes.map(upgrade, range(2))) == [REVISION, REVISION]


def test_the_embedded_file_makes_and_upgrades_itself(empty_sqlite_url: str) -> None:
    with open_store(empty_sqlite_url) as store:
        assert current_revision(store) == REVISION


@pytest.mark.one_database
def test_a_migration_of_the_embedded_file_may_take_longer_than_an_answer(
    empty_sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends: list[float | None] = []

    def upgrade(store: Store) -> None:
        store.transact(lambda _conn: ends.append(deadline()))
        upgrade_schema(store)

    monkeypatch.setattr(opening, "upgrade_schema", upgrade)
    with open_store(empty_sqlite_url, deadlines=Deadlines()) as store:
        assert current_revision(store) == REVISION
    assert ends == [None]
