"""The practical limit: one table, a fenced claim and a fenced ack by hand on psycopg 3, and nothing else.

It keeps no table lock, no history and no record of who submitted what.
"""

from __future__ import annotations

import os
import time
from uuid import uuid4

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.harness import Contender, Enqueuer, Meter, Signals

SCHEMA = """
CREATE TABLE task (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state        smallint    NOT NULL DEFAULT 0,  -- 0 waiting, 1 running, 2 finished
    priority     smallint    NOT NULL DEFAULT 0,
    due_at       timestamptz NOT NULL DEFAULT now(),
    fence        bigint      NOT NULL DEFAULT 0,
    holder       text,
    leased_until timestamptz,
    payload      jsonb       NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT now(),
    finished_at  timestamptz
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX task_waiting ON task (priority, due_at, id) WHERE state = 0;
CREATE INDEX task_running ON task (leased_until) WHERE state = 1;
"""
CLAIM = """
UPDATE task SET state = 1, fence = fence + 1, holder = %s, leased_until = now() + interval '60 s'
 WHERE id = (SELECT id FROM task WHERE state = 0 AND due_at <= now()
              ORDER BY priority, due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, fence, payload
"""
ACK = "UPDATE task SET state = 2, finished_at = now(), leased_until = NULL WHERE id = %s AND fence = %s AND state = 1"
ENQUEUE = "INSERT INTO task (payload) VALUES (%s)"


def create(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(SCHEMA)


def fill(url: str, n: int) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO task (payload) SELECT jsonb_build_object('i', i) FROM generate_series(1, %s) i", (n,))


def work(signals: Signals, url: str) -> None:
    holder = f"worker-{os.getpid()}"
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        signals.ready.set()
        signals.go.wait()
        while not signals.stop.is_set():
            task = cursor.execute(CLAIM, (holder,)).fetchone()
            if task is None:
                time.sleep(0.02)
                continue
            cursor.execute(ACK, (task[0], task[1]))


def enqueue(url: str, n: int, meter: Meter) -> None:
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:
        for i in range(20):
            connection.execute(ENQUEUE, (Jsonb({"i": i}),))
        with meter:
            for i in range(n):
                connection.execute(ENQUEUE, (Jsonb({"i": i}),))


HOLD_SCHEMA = """
CREATE TABLE table_lock (
    table_key  text        PRIMARY KEY,
    holder     text        NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE TABLE job (
    id           text        PRIMARY KEY,
    table_key    text        NOT NULL,
    actions      jsonb       NOT NULL,
    options      jsonb       NOT NULL,
    status       text        NOT NULL,
    submitted_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX job_by_table ON job (table_key, submitted_at);
CREATE INDEX job_by_time ON job (submitted_at, id);
CREATE TABLE queue (
    job_id     text        PRIMARY KEY,
    due_at     timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    fence      text
);
CREATE INDEX queue_waiting ON queue (due_at) WHERE claimed_at IS NULL;
"""
LOCK = """
INSERT INTO table_lock AS held VALUES (%s, %s, now() + interval '30 min')
    ON CONFLICT (table_key) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
 WHERE held.expires_at <= now()
RETURNING holder
"""
JOB = "INSERT INTO job (id, table_key, actions, options, status) VALUES (%s, %s, %s, %s, 'pending')"
QUEUE = "INSERT INTO queue (job_id) VALUES (%s)"


ALL_AT_ONCE = """
WITH held AS (
    INSERT INTO table_lock AS held VALUES (%(table)s, %(job)s, now() + interval '30 min')
        ON CONFLICT (table_key) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at
     WHERE held.expires_at <= now()
    RETURNING holder
), made AS (
    INSERT INTO job (id, table_key, actions, options, status)
    SELECT holder, %(table)s, %(actions)s, %(options)s, 'pending' FROM held
)
INSERT INTO queue (job_id) SELECT holder FROM held RETURNING job_id
"""


def create_with_lock(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(HOLD_SCHEMA)


def submit(url: str, n: int, meter: Meter) -> None:
    """Lock, job and queue row in one transaction, as one writes it: a statement each."""
    with psycopg.connect(url, prepare_threshold=1) as connection:
        for i in range(20):
            _submit(connection, f"warm_up_{i}")
        with meter:
            for i in range(n):
                _submit(connection, f"t{i}")


def _submit(connection: psycopg.Connection, table: str) -> None:
    job_id = uuid4().hex
    with connection.transaction():
        if connection.execute(LOCK, (table, job_id)).fetchone() is None:
            raise AssertionError(f"{table} is locked, although each table is submitted once.")
        connection.execute(JOB, (job_id, table, Jsonb(["rewrite_data_files"]), Jsonb({})))
        connection.execute(QUEUE, (job_id,))


def submit_at_once(url: str, n: int, meter: Meter) -> None:
    """Lock, job and queue row in one statement, which is a transaction of its own: as few round trips as ours."""
    with psycopg.connect(url, autocommit=True, prepare_threshold=1) as connection:

        def one(table: str) -> None:
            values = {"table": table, "job": uuid4().hex, "actions": Jsonb(["rewrite_data_files"]), "options": Jsonb({})}
            if connection.execute(ALL_AT_ONCE, values).fetchone() is None:
                raise AssertionError(f"{table} is locked, although each table is submitted once.")

        for i in range(20):
            one(f"warm_up_{i}")
        with meter:
            for i in range(n):
                one(f"t{i}")


HANDWRITTEN_AT_ONCE = Enqueuer(name="handwritten1", create=create_with_lock, enqueue=submit_at_once)
HANDWRITTEN_SUBMIT = Enqueuer(name="handwritten3", create=create_with_lock, enqueue=submit)
HANDWRITTEN = Contender(
    name="handwritten",
    create=create,
    fill=fill,
    work=work,
    enqueue=enqueue,
    unfinished="SELECT 1 FROM task WHERE state < 2 LIMIT 1",
)
