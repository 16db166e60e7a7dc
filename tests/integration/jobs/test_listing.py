"""Lists of jobs: pages neither miss nor repeat a job while others change, and any text is a valid cursor or is refused."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from itertools import count

import pytest
from clocks import MovedClock
from effort import rounds
from hypothesis import HealthCheck, given, settings, strategies as st

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import Job, JobFilter, Jobs, JobStatus
from airflow_snowpack.jobs.listing import NEWEST_FIRST
from airflow_snowpack.store import InvalidCursor

ACTIONS = ["expire_snapshots"]
STATUSES = list(JobStatus)
FRESH = count(1)
bounded = settings(max_examples=rounds(40, soak=4000), deadline=None, database=None, suppress_health_check=list(HealthCheck))


# -- pages -------------------------------------------------------------------------------------------------------------


class Life:
    """Jobs that come, go on and are deleted, one step at a time."""

    def __init__(self, jobs: Jobs, clock: MovedClock) -> None:
        self.jobs, self.clock = jobs, clock
        self.all: list[Job] = []

    def step(self, what: str, which: int) -> None:
        self.clock.move(microseconds=which % 2)  # now and then at the very same moment
        active = [job for job in self.all if not self.jobs.get(job.job_id).status.is_terminal]
        ended = [job for job in self.all if job not in active]
        if what == "come":
            self.all.append(self.jobs.submit(TableName("lake", "db", f"t{next(FRESH)}"), ACTIONS))
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


@settings(bounded, max_examples=rounds(15, soak=1000))
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
        seen += [job.job_id for job in page.items]
        cursor = page.next
        if cursor is None:
            break
        for change in changes:
            life.step(*change)
            always &= fitting()
    assert cursor is None
    assert len(seen) == len(set(seen)), "no job appears twice"
    assert always <= set(seen), "what fitted all the time is there"


@pytest.mark.one_database
def test_the_last_page_has_no_cursor_and_an_empty_list_is_one_page(jobs: Jobs, table: TableName) -> None:
    assert jobs.page() == jobs.page(limit=1)
    assert (jobs.page().items, jobs.page().next) == ((), None)
    jobs.submit(table, ACTIONS)
    assert jobs.page(limit=1).next is None


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


@pytest.mark.one_database
def test_what_no_page_gave_is_no_cursor(jobs: Jobs) -> None:
    for cursor in BROKEN:
        with pytest.raises(InvalidCursor, match="not one that a list returned"):
            jobs.page(after=cursor)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.just(NOW),
    lambda values: st.lists(values, max_size=3) | st.dictionaries(st.text(), values, max_size=3),
)


@bounded
@given(cursor=st.text() | json_values.map(encoded) | st.binary().map(lambda raw: base64.urlsafe_b64encode(raw).decode()))
def test_any_text_is_a_cursor_or_refused_as_one(jobs: Jobs, cursor: str) -> None:
    try:
        assert jobs.page(after=cursor).items == ()
    except InvalidCursor as refused:
        assert len(str(refused)) < 1000  # noqa: PT017 - either answer is right


@bounded
@given(moment=st.datetimes(timezones=st.just(UTC), min_value=datetime(1, 1, 2), max_value=datetime(9999, 12, 30)))  # noqa: DTZ001
def test_a_cursor_of_any_moment_is_taken(jobs: Jobs, table: TableName, moment: datetime) -> None:
    job = Job("f" * 32, table, ("expire_snapshots",), {}, False, JobStatus.PENDING, moment)

    assert jobs.page(after=NEWEST_FIRST.cursor_of(job)).next is None
