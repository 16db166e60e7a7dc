"""A request that is sent twice with the same key is one job."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from typing import Any

import pytest
import race_process
import sqlalchemy as sa
from bounded import output_of
from scripted_engine import PATIENCE_S

from airflow_snowpack.iceberg import TableName
from airflow_snowpack.jobs import InvalidKey, Jobs, KeyUsedBefore, RequestKey, Submission, TableLocked
from airflow_snowpack.store import Actor, Store
from airflow_snowpack.store.schema import audit_trail
from airflow_snowpack.store.tables.jobs import idempotency_keys, job_queue, jobs as jobs_table

ACTIONS = ["rewrite_data_files", "expire_snapshots"]
VERA = Actor("vera", via="api")
KEY = "5f3c0a52-7a35-4bd2-8f5d-2f6d5a3a9d10"


def how_many(store: Store, table: sa.Table) -> int:
    found: int = store.read(lambda conn: conn.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())
    return found


@pytest.mark.one_database
def test_the_order_in_which_actions_are_named_makes_no_other_request(
    jobs: Jobs, table: TableName, ask: Callable[..., Submission]
) -> None:
    assert ask(jobs, table).job == ask(jobs, table, actions=ACTIONS[::-1]).job


def test_a_key_from_before_there_were_priorities_belongs_to_the_request_with_the_default(table: TableName) -> None:
    before = hashlib.sha256(json.dumps([table.lock_key, sorted(ACTIONS), {}, False], sort_keys=True).encode()).hexdigest()
    of = partial(RequestKey.of, VERA, KEY, table, ACTIONS, None, dry_run=False)

    assert of().fingerprint == of(priority=0).fingerprint == before
    assert of(priority=1).fingerprint != before


@pytest.mark.one_database
def test_a_request_that_comes_again_after_its_job_has_ended_is_still_that_job(jobs: Jobs, table: TableName) -> None:
    job = jobs.submit_once(table, ACTIONS, key=KEY, actor=VERA).job
    jobs.cancel(job.job_id, actor=VERA)

    again = jobs.submit_once(table, ACTIONS, key=KEY, actor=VERA)
    assert (again.again, again.job.job_id, again.job.status) == (True, job.job_id, "cancelled")


@pytest.mark.one_database
@pytest.mark.parametrize(
    "other",
    [
        lambda jobs, _table, other: jobs.submit_once(other, ACTIONS, key=KEY, actor=VERA),
        lambda jobs, table, _other: jobs.submit_once(table, ACTIONS[:1], key=KEY, actor=VERA),
        lambda jobs, table, _other: jobs.submit_once(
            table, ACTIONS, options={"expire_snapshots": {"retain_last": 9}}, key=KEY, actor=VERA
        ),
        lambda jobs, table, _other: jobs.submit_once(table, ACTIONS, results=[], key=KEY, actor=VERA),
    ],
    ids=["table", "actions", "options", "dry run"],
)
def test_a_key_that_came_with_another_request_is_refused_and_names_that_ones_job(
    jobs: Jobs, table: TableName, other_table: TableName, other: Callable[..., Submission]
) -> None:
    job = jobs.submit_once(table, ACTIONS, key=KEY, actor=VERA).job

    with pytest.raises(KeyUsedBefore, match=job.job_id):
        other(jobs, table, other_table)
    assert jobs.list() == [job]


def test_a_refused_submit_leaves_its_key_free(jobs: Jobs, store: Store, table: TableName) -> None:
    holder = jobs.submit(table, ACTIONS)
    with pytest.raises(TableLocked):
        jobs.submit_once(table, ACTIONS, key=KEY, actor=VERA)

    assert how_many(store, idempotency_keys) == 0
    jobs.cancel(holder.job_id)
    assert not jobs.submit_once(table, ACTIONS, key=KEY, actor=VERA).again


@pytest.mark.one_database
@pytest.mark.parametrize("key", ["", " " * 256, "é", "a\nb", "a\x00", "\ud800", "💾"])
def test_a_key_that_cannot_stand_in_a_header_is_refused(
    jobs: Jobs, table: TableName, ask: Callable[..., Submission], key: str
) -> None:
    with pytest.raises(InvalidKey, match="1 to 255 printable ASCII characters"):
        ask(jobs, table, key=key)
    assert jobs.list() == []


def test_twenty_threads_with_one_key_get_one_job(
    jobs: Jobs, store: Store, table: TableName, ask: Callable[..., Submission]
) -> None:
    together = Barrier(20)

    def again(_number: int) -> Submission:
        together.wait(PATIENCE_S)
        return ask(jobs, table)

    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(again, range(20)))
    assert len({answer.job.job_id for answer in answers}) == 1
    assert sorted(answer.again for answer in answers) == [False] + [True] * 19
    assert how_many(store, jobs_table) == how_many(store, audit_trail) == how_many(store, idempotency_keys) == 1


def test_twenty_threads_with_one_key_and_twenty_requests_get_one_job_and_nineteen_refusals(
    jobs: Jobs, store: Store, table: TableName, ask: Callable[..., Submission]
) -> None:
    together = Barrier(20)

    def other(number: int) -> str:
        name = type(table)(table.catalog, table.database, f"t{number}")
        together.wait(PATIENCE_S)
        try:
            return ask(jobs, name).job.job_id
        except KeyUsedBefore as refused:
            return f"not {refused.job_id}"

    with ThreadPoolExecutor(20) as pool:
        answers = sorted(pool.map(other, range(20)))
    (job,) = jobs.list()
    assert answers == sorted([job.job_id] + [f"not {job.job_id}"] * 19)
    assert [lock.holder for lock in jobs.locks.list()] == ([] if job.dry_run else [job.job_id])
    assert how_many(store, job_queue) == (0 if job.dry_run else 1)


def test_four_processes_with_one_key_get_one_job(store_url: str, store: Store) -> None:
    parts = json.dumps([("ask", "db.wanted", KEY)] * 4)
    answers: list[Mapping[str, Any]] = json.loads(output_of(sys.executable, race_process.__file__, store_url, parts))
    assert len({answer["job_id"] for answer in answers}) == 1
    assert sorted(answer["again"] for answer in answers) == [False, True, True, True]
    assert how_many(store, jobs_table) == how_many(store, audit_trail) == 1
