"""What keeps lists, counts and look-ups as cheap with a million jobs as with a hundred: they read by an index, and no more than a
bound.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import new_database
from query_plans import plan, scans, sent_by

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, JobCounts, JobFilter, Jobs, JobStatus, listing
from airflow_snowpack.jobs.listing import NEWEST_FIRST, last_examined, page_query, read_latest
from airflow_snowpack.store import Store, open_store
from airflow_snowpack.store.counters import read_counters
from airflow_snowpack.store.tables.jobs import jobs as jobs_table

FINISHED, RARE = 4_000, 3
MOMENT = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
TABLE = TableName("lake", "db", "t1")
AFTER = NEWEST_FIRST.cursor_of(Job("f" * 32, TABLE, (), {}, False, JobStatus.FAILED, MOMENT))


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
            "owner": f"dag_{number % 7}/run_{number}/task" if number % 2 else None,
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
    "one DAG": (JobFilter(dag_id="dag_1"), "ix_jobs_dag"),
    "one DAG, several statuses": (
        JobFilter(dag_id="dag_1", statuses=frozenset({JobStatus.FAILED, JobStatus.PENDING})),
        "ix_jobs_dag",
    ),
    "a DAG without jobs": (JobFilter(dag_id="unknown"), "ix_jobs_dag"),
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
        found = "\n".join(analyze(filled, query))
        assert f"rows={RARE}" in found
        assert "Rows Removed by Filter" not in found, found


def test_a_page_is_one_statement_and_one_more_where_an_index_does_not_answer_its_filter(filled: Store, jobs: Jobs) -> None:
    for name, (which, _) in FILTERS.items():
        expected = 2 if "several statuses" in name else 1
        assert len(sent_by(filled, lambda which=which: jobs.page(which, limit=5))) == expected, name
    for which in UNANSWERED:
        assert len(sent_by(filled, lambda which=which: jobs.page(which, limit=5))) == 2


UNANSWERED = (
    JobFilter(search="nowhere"),
    JobFilter(search="nowhere", statuses=frozenset({JobStatus.COMPLETED, JobStatus.RUNNING})),
    JobFilter(search="nowhere", table=TABLE, dag_id="dag_1"),
    JobFilter(dry_run=True),
    JobFilter(table=TABLE, dry_run=True, statuses=frozenset({JobStatus.CANCELLED})),
    JobFilter(dag_id="dag_1", statuses=frozenset({JobStatus.CANCELLED})),
)


def test_a_page_that_finds_nothing_reads_no_more_jobs_than_its_bound(
    filled: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_EXAMINED", 25)
    for which in UNANSWERED:
        page = jobs.page(which, limit=5)
        assert (page.items, page.searched_to is None, page.next is None) == ((), False, False), which
        with filled.engine.connect() as conn:
            last = last_examined(conn, which, None)
        assert last is not None
        assert page.searched_to == last[0]
        query = page_query(which, None, 6, last)
        assert scans(filled, [sent_for(filled, query)], ["jobs"]) == []
        if filled.is_postgres and (which.table is None or which.dag_id is None):  # of two indexes it takes the cheaper one
            found = analyze(filled, query)
            removed = [int(number) for line in found for number in re.findall(r"Rows Removed by Filter: (\d+)", line)]
            assert sum(removed) <= 25, found


def test_a_search_continues_where_the_page_before_stopped_and_finds_what_is_old(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "MAX_EXAMINED", 1_500)
    pages = [jobs.page(JobFilter(search="BOOM"))]
    while pages[-1].next is not None:
        pages.append(jobs.page(JobFilter(search="BOOM"), after=pages[-1].next))

    assert [len(page.items) for page in pages] == [0, 0, RARE]
    assert [page.searched_to is None for page in pages] == [False, False, True]


def test_counts_stop_at_their_bound_and_say_so(filled: Store, jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.count(JobFilter(search="boom")) == JobCounts({**dict.fromkeys(JobStatus, 0), JobStatus.FAILED: RARE}, frozenset())
    monkeypatch.setattr(listing, "MAX_EXAMINED", 25)
    for which in (JobFilter(search="boom"), JobFilter(table=TABLE), JobFilter(dag_id="dag_1")):
        assert jobs.count(which).capped == frozenset(JobStatus)
        assert sum(jobs.count(which).by_status.values()) <= 25
        assert len(sent_by(filled, lambda which=which: jobs.count(which))) == 2


def test_a_metrics_scrape_reads_no_finished_jobs(filled: Store, jobs: Jobs) -> None:
    assert jobs.count_open() == {JobStatus.PENDING: 0, JobStatus.RUNNING: 0}
    sent = sent_by(filled, lambda: (jobs.count_open(), read_counters(filled)))
    assert len(sent) == 2
    assert scans(filled, sent, ["jobs"]) == []


def test_the_active_job_of_a_task_is_found_by_its_owner_and_not_through_the_queue(filled: Store, jobs: Jobs) -> None:
    sent = sent_by(filled, lambda: jobs.find_owned("dag_1/run_1/task"))
    steps = [step for statement, parameters in sent for step in plan(filled, statement, parameters)]
    assert any("ix_jobs_owner" in step for step in steps), steps
    assert scans(filled, sent, ["jobs", "job_queue"]) == []


def test_the_newest_dry_run_of_a_table_without_any_reads_none_of_its_jobs(filled: Store, jobs: Jobs) -> None:
    sent = sent_by(filled, lambda: jobs.latest([TABLE], dry_run=True))
    (statement, parameters), *_ = sent
    steps = plan(filled, statement, parameters)
    assert any("ix_jobs_dry_runs" in step for step in steps), steps


def test_the_newest_jobs_of_many_tables_are_two_statements(filled: Store, jobs: Jobs) -> None:
    tables = [TableName("lake", "db", f"t{number}") for number in range(40)]

    assert len(sent_by(filled, lambda: jobs.latest(tables))) == 2
    with filled.engine.connect() as conn:
        found = read_latest(conn, [str(table) for table in tables], tables[0].catalog_id, dry_run=False)
    newest = {job.table: job.job_id for job in found}
    assert newest == {table: f"{FINISHED - 40 + number:032x}" for number, table in enumerate(tables)}


def explain(store: Store, query: sa.Select[Any]) -> list[str]:
    """The plan, one line for each step."""
    return plan(store, *sent_for(store, query))


def analyze(store: Store, query: sa.Select[Any]) -> list[str]:
    """What Postgres reports after it has run the query."""
    statement, parameters = sent_for(store, query)
    return store.single(lambda conn: list(conn.exec_driver_sql(f"EXPLAIN ANALYZE {statement}", parameters).scalars()))


def sent_for(store: Store, query: sa.Select[Any]) -> tuple[str, Any]:
    (sent,) = sent_by(store, lambda: store.all(query))
    return sent


def test_the_queue_over_time_reads_only_the_jobs_of_its_period(filled: Store, jobs: Jobs) -> None:
    assert scans(filled, sent_by(filled, jobs.queue_over_time), ["jobs"]) == []
