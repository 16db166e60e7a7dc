"""What keeps a page of a list as fast with a hundred thousand jobs as with a hundred: it walks along one index, newest first."""

from __future__ import annotations

import re
import shutil
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy as sa
from postgres_server import new_database
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.compiler import compiles

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, JobFilter, Jobs, JobStatus
from airflow_snowpack.jobs.listing import cursor_of, page_query, read_latest
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.schema import jobs as jobs_table

if TYPE_CHECKING:
    from collections.abc import Iterator

FINISHED, RARE = 4_000, 3
MOMENT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
TABLE = TableName("lake", "db", "t1")
AFTER = cursor_of(Job("f" * 32, TABLE, (), {}, False, JobStatus.FAILED, MOMENT))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Many completed jobs, and a few failed ones that are older than all of them; tests only read from it."""
    with ExitStack() as stack:
        if request.param == "sqlite":
            template = request.getfixturevalue("migrated_sqlite")
            url = f"sqlite:///{shutil.copy(template, tmp_path_factory.mktemp('filled') / 'snowpack.db')}"
        else:
            template = request.getfixturevalue("migrated_postgres")
            url = stack.enter_context(new_database(request.getfixturevalue("postgres_url"), template=template))
        store = stack.enter_context(open_store(url))
        fill(store)
        yield store


@pytest.fixture
def jobs(filled: Store) -> Iterator[Jobs]:
    with Jobs(filled) as jobs:
        yield jobs


def fill(store: Store) -> None:
    """Insert the jobs in bulk."""
    rows = [
        {
            "job_id": f"{number:032x}",
            "catalog": "lake",
            "database_name": "db",
            "table_name": f"t{number % 40}",
            "table_key": f"lake.db.t{number % 40}",
            "actions": [],
            "options": {},
            "dry_run": False,
            "inline": False,
            "status": "failed" if number < RARE else "completed",
            "error": "boom" if number < RARE else None,
            "submitted_at": MOMENT.replace(year=2025, microsecond=number),
            "attempt": 1,
        }
        for number in range(FINISHED)
    ]
    store.transact(lambda conn: conn.execute(sa.insert(jobs_table), rows))
    if store.is_postgres:
        store.single(lambda conn: conn.exec_driver_sql("ANALYZE"))


FILTERS = {
    "everything": (JobFilter(), "ix_jobs_submitted_at_job_id"),
    "since a moment": (JobFilter(since=MOMENT), "ix_jobs_submitted_at_job_id"),
    "until a moment": (JobFilter(until=MOMENT), "ix_jobs_submitted_at_job_id"),
    "one table": (JobFilter(table=TABLE), "ix_jobs_table_key_submitted_at_job_id"),
    "one table, several statuses": (
        JobFilter(table=TABLE, statuses=frozenset({JobStatus.FAILED, JobStatus.PENDING})),
        "ix_jobs_table_key_submitted_at_job_id",
    ),
    "completed": (JobFilter(statuses=frozenset({JobStatus.COMPLETED})), "ix_jobs_submitted_at_job_id"),
    "failed": (JobFilter(statuses=frozenset({JobStatus.FAILED})), "ix_jobs_with_error"),
    "cancelled": (JobFilter(statuses=frozenset({JobStatus.CANCELLED})), "ix_jobs_with_error"),
    "failed or cancelled": (JobFilter(statuses=frozenset({JobStatus.FAILED, JobStatus.CANCELLED})), "ix_jobs_with_error"),
}
BY_ID = "pk_jobs|sqlite_autoindex_jobs_1"


@pytest.mark.parametrize("after", [None, AFTER], ids=["first page", "next page"])
def test_a_page_is_a_walk_along_one_index_without_a_sort_of_what_it_leaves_out(filled: Store, after: str | None) -> None:
    for name, (which, index) in FILTERS.items():
        lines = explain(filled, page_query(which, after, 51))
        reads = [line for line in lines if re.search(r"\bScan\b.* on |^(SCAN|SEARCH) jobs", line)]
        told = "\n".join([name, *lines])
        assert reads, told
        assert all(index in line and "Bitmap" not in line for line in reads), told
        assert len(reads) == 1, told
        assert not any(re.search(r"\bSort\b|TEMP B-TREE", line) for line in lines), told


@pytest.mark.parametrize("statuses", [{JobStatus.PENDING}, {JobStatus.RUNNING}, {JobStatus.PENDING, JobStatus.RUNNING}])
def test_active_jobs_are_looked_up_by_the_ids_that_the_queue_has(filled: Store, statuses: set[JobStatus]) -> None:
    lines = explain(filled, page_query(JobFilter(statuses=frozenset(statuses)), AFTER, 51))
    reads = [line for line in lines if re.search(r"\bScan\b.* on jobs|^(SCAN|SEARCH) jobs", line)]
    assert reads, "\n".join(lines)
    assert all(re.search(BY_ID, line) for line in reads), "\n".join(lines)


def test_statuses_that_are_kept_apart_are_one_walk_each(filled: Store) -> None:
    lines = explain(filled, page_query(JobFilter(statuses=frozenset(JobStatus)), None, 51))
    reads = [line for line in lines if re.search(r"\bScan\b.* on jobs|^(SCAN|SEARCH) jobs", line)]
    assert len(reads) == 3, "\n".join(lines)


def test_a_page_of_a_rare_status_reads_no_other_job(filled: Store) -> None:
    if filled.is_postgres:
        query = page_query(JobFilter(statuses=frozenset({JobStatus.FAILED})), None, 51)
        plan = "\n".join(filled.single(lambda conn: conn.execute(Explained("EXPLAIN ANALYZE ", query)).scalars().all()))
        assert f"rows={RARE}" in plan
        assert "Rows Removed by Filter" not in plan, plan


def test_a_page_is_one_statement_whatever_its_filter(filled: Store, jobs: Jobs) -> None:
    for which, _ in FILTERS.values():
        assert len(statements_of(filled, lambda which=which: jobs.page(which, limit=5))) == 1


def test_the_newest_jobs_of_many_tables_are_two_statements(filled: Store, jobs: Jobs) -> None:
    tables = [TableName("lake", "db", f"t{number}") for number in range(40)]

    assert len(statements_of(filled, lambda: jobs.latest(tables))) == 2
    with filled.engine.connect() as conn:
        found = read_latest(conn, [str(table) for table in tables], tables[0].catalog_id, dry_run=False)
    newest = {job.table: job.job_id for job in found}
    assert newest == {table: f"{FINISHED - 40 + number:032x}" for number, table in enumerate(tables)}


class Explained(sa.sql.expression.Executable, sa.sql.expression.ClauseElement):
    """A statement behind EXPLAIN, with its own parameters."""

    inherit_cache = False

    def __init__(self, how: str, statement: Any) -> None:
        self.how, self.statement = how, statement


@compiles(Explained)
def _compile(element: Explained, compiler: Any, **options: Any) -> str:
    return element.how + str(compiler.process(element.statement, **options))


def explain(store: Store, query: sa.Select[Any]) -> list[str]:
    """The plan, one line for each step."""
    if store.is_postgres:
        # The generic plan, which Postgres keeps whatever the values are.
        numbered = postgresql.psycopg.dialect(paramstyle="numeric_dollar")
        text = str(query.compile(dialect=numbered, compile_kwargs={"render_postcompile": True}))
        return store.single(lambda conn: list(conn.exec_driver_sql(f"EXPLAIN (GENERIC_PLAN) {text}").scalars()))
    return store.single(lambda conn: [row[3] for row in conn.execute(Explained("EXPLAIN QUERY PLAN ", query))])


def statements_of(store: Store, ask: Any) -> list[str]:
    """What is sent to the database meanwhile."""
    sent: list[str] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        sent.append(statement)

    sa.event.listen(store.engine, "before_cursor_execute", note)
    try:
        ask()
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", note)
    return sent
