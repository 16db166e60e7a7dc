"""Lists of jobs: pages that neither miss nor repeat, whatever happens meanwhile, and cursors that nobody can break."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import InvalidCursor, Job, JobFilter, Jobs, JobStatus
from airflow_snowpack.jobs.listing import cursor_of

if TYPE_CHECKING:
    from conftest import MovedClock

ACTIONS = ["expire_snapshots"]
STATUSES = list(JobStatus)
FRESH = count(1)
bounded = settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))


def make(jobs: Jobs, table: TableName, status: JobStatus, **said: Any) -> Job:
    """A job in this state."""
    job = jobs.submit(table, ACTIONS, **said)
    match status:
        case JobStatus.PENDING:
            pass
        case JobStatus.CANCELLED:
            jobs.cancel(job.job_id)
        case _:
            claim = jobs.claim("w", job_id=job.job_id)
            assert claim is not None
            if status.is_terminal:
                assert jobs.finish(claim, status, [], "boom" if status is JobStatus.FAILED else None)
    return jobs.get(job.job_id)


def numbered(number: int) -> TableName:
    return TableName("lake", "db", f"t{number}")


def walk(jobs: Jobs, which: JobFilter, limit: int) -> list[str]:
    """The ids on all pages."""
    seen, cursor = [], None
    while True:
        page = jobs.page(which, after=cursor, limit=limit)
        assert len(page.jobs) <= limit
        seen += [job.job_id for job in page.jobs]
        cursor = page.next
        if cursor is None:
            return seen


# -- pages -------------------------------------------------------------------------------------------------------------


class Life:
    """Jobs that come, go on and are deleted, one step at a time."""

    def __init__(self, jobs: Jobs, clock: MovedClock) -> None:
        self.jobs, self.clock = jobs, clock
        self.all: list[Job] = []

    def step(self, what: str, which: int) -> None:
        self.clock.forward(microseconds=which % 2)  # now and then at the very same moment
        active = [job for job in self.all if not self.jobs.get(job.job_id).status.is_terminal]
        ended = [job for job in self.all if job not in active]
        if what == "come":
            self.all.append(self.jobs.submit(numbered(next(FRESH)), ACTIONS))
        elif what == "go on" and active:
            job = active[which % len(active)]
            claim = self.jobs.claim("w", job_id=job.job_id)
            if claim is None:
                self.jobs.cancel(job.job_id)
            elif which % 3:
                self.jobs.finish(claim, (JobStatus.COMPLETED, JobStatus.FAILED)[which % 2], [])
        elif what == "delete" and ended:
            job = ended[which % len(ended)]
            self.jobs.delete(job.job_id)
            self.all.remove(job)


steps = st.lists(st.tuples(st.sampled_from(["come", "come", "go on", "go on", "delete"]), st.integers(0, 99)), max_size=6)


@settings(bounded, max_examples=50)
@given(
    before=st.integers(0, 10),
    between=st.lists(steps, min_size=1, max_size=5),
    limit=st.integers(1, 4),
    statuses=st.frozensets(st.sampled_from(STATUSES), max_size=5),
)
def test_pages_miss_and_repeat_nothing_that_was_there_from_start_to_end(
    jobs: Jobs, clock: MovedClock, before: int, between: list[list[tuple[str, int]]], limit: int, statuses: frozenset[JobStatus]
) -> None:
    for job in jobs.list(limit=1000):  # of the example before
        if not job.status.is_terminal:
            jobs.cancel(job.job_id)
        jobs.delete(job.job_id)
    life, which = Life(jobs, clock), JobFilter(statuses=statuses)

    def fitting() -> set[str]:
        return {job.job_id for job in jobs.list(limit=1000) if not statuses or job.status in statuses}

    for number in range(before):
        life.step("come", number)
    always, seen, cursor = fitting(), [], None
    for changes in [*between, *([[]] * 40)]:
        page = jobs.page(which, after=cursor, limit=limit)
        seen += [job.job_id for job in page.jobs]
        cursor = page.next
        if cursor is None:
            break
        for change in changes:
            life.step(*change)
            always &= fitting()
    assert cursor is None
    assert len(seen) == len(set(seen)), "no job appears twice"
    assert always <= set(seen), "what fitted all the time is there"


def test_pages_go_from_the_newest_to_the_oldest_and_by_id_at_the_same_moment(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(9):
        made.append(jobs.submit(numbered(number), ACTIONS))
        clock.forward(seconds=number % 3)
    newest_first = sorted(made, key=lambda job: (job.submitted_at, job.job_id), reverse=True)

    for limit in (1, 2, 8, 9, 10):
        assert walk(jobs, JobFilter(), limit) == [job.job_id for job in newest_first]


def test_several_statuses_are_any_of_them_in_one_order(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(15):
        made.append(make(jobs, numbered(number), STATUSES[number % 5]))
        clock.forward(seconds=1)

    for statuses in ({JobStatus.FAILED}, {JobStatus.FAILED, JobStatus.RUNNING}, set(STATUSES)):
        expected = [job.job_id for job in reversed(made) if job.status in statuses]
        assert walk(jobs, JobFilter(statuses=frozenset(statuses)), 2) == expected
        assert jobs.count(JobFilter(statuses=frozenset(statuses))) == len(expected)
        assert jobs.count(JobFilter(statuses=frozenset(statuses)), at_most=2) == 2


def test_the_last_page_has_no_cursor_and_an_empty_list_is_one_page(jobs: Jobs, table: TableName) -> None:
    assert jobs.page() == jobs.page(limit=1)
    assert (jobs.page().jobs, jobs.page().next) == ((), None)
    jobs.submit(table, ACTIONS)
    assert jobs.page(limit=1).next is None


def test_filters_narrow_together(jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock) -> None:
    old = make(jobs, table, JobStatus.FAILED, submitted_by="ann", owner="dag_a/run/task")
    clock.forward(hours=1)
    plan = jobs.record_dry_run(table, ACTIONS, [], submitted_by="bob")
    new = make(jobs, other_table, JobStatus.PENDING, owner="dag_a_b/run/task[3]")

    def found(**which: Any) -> set[str]:
        return {job.job_id for job in jobs.page(JobFilter(**which)).jobs}

    assert found(table=table) == {old.job_id, plan.job_id}
    assert found(table=table, dry_run=False) == {old.job_id}
    assert found(table=table, statuses=frozenset({JobStatus.FAILED, JobStatus.PENDING})) == {old.job_id}
    assert found(dag_id="dag_a") == {old.job_id}
    assert found(dag_id="dag_a_b") == {new.job_id}
    assert found(dag_id="dag") == set()
    assert found(since=clock.now) == {plan.job_id, new.job_id}
    assert found(until=clock.now) == {old.job_id}
    assert found(until=clock.now, search="PAGE_VIEWS", statuses=frozenset({JobStatus.FAILED})) == {old.job_id}
    assert found(until=clock.now, dry_run=True) == set()


def test_a_dag_of_any_name_finds_its_own_jobs_only(jobs: Jobs, table: TableName) -> None:
    jobs.submit(table, ACTIONS, owner="compact/run/task")

    for name in ("a\x00b", "\ud800", "'; DROP TABLE jobs; --", "a" * 300, "%", "_", "COMPACT"):
        assert jobs.page(JobFilter(dag_id=name)).jobs == (), name


# -- search ------------------------------------------------------------------------------------------------------------


def test_a_search_finds_exactly_what_is_written(jobs: Jobs, table: TableName, other_table: TableName) -> None:
    other = jobs.submit_and_claim(other_table, ACTIONS, "w")
    jobs.finish(other, JobStatus.FAILED, [], "something else, with axb and 100 files")

    for error in ("100% of", "a_b", "back\\slash", "a/b", "it's", 'a "b"', "Grüße aus Übersee", "數據庫", "[x]", "(a|b)*"):
        claim = jobs.submit_and_claim(table, ACTIONS, "w")
        jobs.finish(claim, JobStatus.FAILED, [], f"before {error} after")
        assert [job.job_id for job in jobs.page(JobFilter(search=error)).jobs] == [claim.job.job_id], error


def test_a_search_for_what_nobody_wrote_finds_nothing(jobs: Jobs) -> None:
    jobs.submit(TableName("lake", "db", "orders"), ACTIONS, submitted_by="ann")

    for text in ("%", "_", "\\", "/", "%%", "\\%", "\x00", "a\x00", "\ud800", "\udfff\ud800", "💾", "x" * 10_000):
        assert jobs.page(JobFilter(search=text)).jobs == (), text
        assert jobs.count(JobFilter(search=text)) == 0


def test_a_search_looks_at_table_id_submitter_owner_and_error_in_upper_and_lower_case(jobs: Jobs, table: TableName) -> None:
    claim = jobs.submit_and_claim(table, ACTIONS, "w", submitted_by="Ann", owner="Dag/run/task")
    jobs.finish(claim, JobStatus.FAILED, [], "Boom")

    for text in ("ANALYTICS.PAGE", claim.job.job_id[3:12].upper(), "aNN", "dag/RUN", "bOOM", ""):
        assert len(jobs.page(JobFilter(search=text)).jobs) == 1, text


# -- cursors -----------------------------------------------------------------------------------------------------------


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


NOW = "2026-11-21T22:00:00+00:00"


BROKEN = [
    "",
    "!",
    "garbage",
    "a" * 100_000,
    "\x00",
    "\ud800",
    "é",
    "💾",
    encoded(None),
    encoded(1),
    encoded([]),
    encoded({}),
    encoded({NOW: 1, "a": 2}),
    encoded([NOW]),
    encoded([NOW, "a", "b"]),
    encoded([NOW, 1]),
    encoded([1, "a"]),
    encoded([NOW, None]),
    encoded([NOW, "a\x00b"]),
    encoded([NOW, "\ud800"]),
    encoded(["2026-11-21T22:00:00", "a"]),
    encoded(["2026-11-21", "a"]),
    encoded(["0001-01-01T00:00:00+14:00", "a"]),
    encoded(["9999-12-31T23:59:59-14:00", "a"]),
    encoded(["NaN", "a"]),
    base64.urlsafe_b64encode(b"[" * 150).decode(),
    base64.urlsafe_b64encode(b"\xff\xfe").decode(),
    base64.urlsafe_b64encode(b'["' + NOW.encode() + b'", "a"] x').decode(),
    encoded([NOW, "a"]) + "\n",
    encoded([NOW, "a"])[:-3],
]


def test_what_no_page_gave_is_no_cursor(jobs: Jobs) -> None:
    for cursor in BROKEN:
        with pytest.raises(InvalidCursor, match="not one that a list gave"):
            jobs.page(after=cursor)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(NOW),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
)


@bounded
@given(cursor=st.text() | json_values.map(encoded) | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_text_is_a_cursor_or_refused_as_one(jobs: Jobs, cursor: str) -> None:
    try:
        assert jobs.page(after=cursor).jobs == ()
    except InvalidCursor as refused:
        assert len(str(refused)) < 1000  # noqa: PT017 - either answer is right


@bounded
@given(moment=st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))  # noqa: DTZ001
def test_a_cursor_of_any_moment_is_taken(jobs: Jobs, table: TableName, moment: datetime) -> None:
    job = Job("f" * 32, table, ("expire_snapshots",), {}, False, JobStatus.PENDING, moment)

    assert jobs.page(after=cursor_of(job)).next is None


def test_a_cursor_of_a_job_that_was_deleted_since_goes_on_at_its_place(jobs: Jobs, clock: MovedClock) -> None:
    made = []
    for number in range(3):
        made.append(make(jobs, numbered(number), JobStatus.COMPLETED))
        clock.forward(seconds=1)
    cursor = jobs.page(limit=2).next
    jobs.delete(made[1].job_id)

    assert [job.job_id for job in jobs.page(after=cursor, limit=2).jobs] == [made[0].job_id]


# -- the newest of each table ------------------------------------------------------------------------------------------


def test_the_newest_job_of_each_table_is_found_and_dry_runs_are_asked_for_apart(
    jobs: Jobs, table: TableName, other_table: TableName, clock: MovedClock
) -> None:
    make(jobs, table, JobStatus.FAILED)
    clock.forward(seconds=1)
    newest = make(jobs, table, JobStatus.COMPLETED)
    clock.forward(seconds=1)
    plan = jobs.record_dry_run(table, ACTIONS, [])
    clock.forward(seconds=1)
    deleted = make(jobs, other_table, JobStatus.COMPLETED)
    jobs.delete(deleted.job_id)

    asked = [table, other_table, numbered(1)]
    assert jobs.latest(asked) == {table: newest}
    assert jobs.latest(asked, dry_run=True) == {table: plan}
    assert jobs.latest([]) == {}


def test_the_newest_jobs_of_thousands_of_tables_can_be_asked_for(jobs: Jobs, table: TableName) -> None:
    job = jobs.submit(table, ACTIONS)

    assert jobs.latest([*(numbered(number) for number in range(3000)), table]) == {table: job}


# -- counts ------------------------------------------------------------------------------------------------------------


def test_counts_by_status_leave_deleted_jobs_out(jobs: Jobs) -> None:
    for number, status in enumerate([*STATUSES, JobStatus.FAILED, JobStatus.FAILED]):
        job = make(jobs, numbered(number), status)
    jobs.delete(job.job_id)

    assert jobs.count_by_status() == {**dict.fromkeys(STATUSES, 1), JobStatus.FAILED: 2}
    assert jobs.count() == 6
    assert jobs.count(JobFilter(since=job.submitted_at + timedelta(seconds=1))) == 0
