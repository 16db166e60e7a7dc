"""The SQL that matches a range of events to triggers and assigns them to the pending runs of their schedules.

    number, upto = conn.execute(AHEAD, {"after": position, "most": 10_000}).one()
    take(conn, new_id(), position, upto, now)

The invariant: each event of the range is assigned once for every trigger that listens to it, to an open pending run that this
transaction has locked. Without one, it joins an unclaimed launch of the schedule that absorbs events, locked too. Without either,
the schedule gets a new pending run. A pending run without a due time becomes due.

The cost depends on the range alone: each row of the range looks up every table by its index. On Postgres ``OFFSET 0`` enforces
this, because a plan that does not know the numbers may prefer to scan whole indexes.
"""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.tables.schedules import ABSORBS, OPEN

# --- on both databases ------------------------------------------------------------------------------------------------

# The number of events after a number, limited, and the number of the last of them.
AHEAD = sa.text("SELECT count(*), max(id) FROM (SELECT id FROM events WHERE id > :after ORDER BY id LIMIT :most) AS ahead")

# Events recorded before the trigger began to listen do not count (by number), nor earlier ones that were recorded later.
LISTENS = "t.event_key = e.key AND t.counts_after < e.id AND t.counts_from <= e.at"
NEW_JOB = "pending_id, schedule, generation, dag_id, state, priority, created_at, next_check_at, counted_to, progress, reasons"
# Not those that wait for constraints: their trigger is satisfied, and more events do not change when they may start. Nor those
# that are already due: writing them again costs more than all the rest.
SLEEPS = f"state = '{PendingState.TRIGGER.value}' AND (next_check_at IS NULL OR next_check_at > :now)"


# The launch that absorbs the events of a schedule without an open pending run. Launches of an older generation absorb none.
ABSORBING = f"""
SELECT launch.pending_id
  FROM launches launch
 CROSS JOIN pending_jobs job
 WHERE launch.schedule = listening.schedule AND launch.{ABSORBS}
   AND job.pending_id = launch.pending_id AND job.generation = listening.generation AND job.state = '{PendingState.LAUNCH.value}'
 ORDER BY launch.enqueued_at, launch.pending_id
 LIMIT 1"""


def _statement(text: str) -> sa.TextClause:
    used = [sa.bindparam("now", type_=UtcDateTime)] if ":now" in text else []
    return sa.text(text).bindparams(*used)


# --- Postgres: one statement ------------------------------------------------------------------------------------------

# Each schedule that listens to an event of the range, with its events and its open pending run, locked until this transaction
# ends. All processes lock pending runs in the order of their schedules, which avoids deadlocks. A run that was launched while
# this waited for its row is no longer open, and is not in the result.
LISTENING = f"""
listening AS MATERIALIZED (
    SELECT t.schedule, t.generation, array_agg(e.id) AS event_ids, array_agg(t.leaf) AS leaves
      FROM events e
     CROSS JOIN LATERAL (SELECT t.schedule, t.generation, t.leaf FROM schedule_triggers t WHERE {LISTENS} OFFSET 0) t
     WHERE e.id > :after AND e.id <= :upto
     GROUP BY t.schedule, t.generation
     ORDER BY t.schedule, t.generation
),
held AS MATERIALIZED (
    SELECT listening.*, job.pending_id, job.sleeps
      FROM listening
      LEFT JOIN LATERAL (
               SELECT pending_id, {SLEEPS} AS sleeps
                 FROM pending_jobs
                WHERE schedule = listening.schedule AND generation = listening.generation AND {OPEN}
                  FOR UPDATE
           ) job ON true
)"""

HOLD = _statement(f"WITH {LISTENING} SELECT count(pending_id) FROM held")

# The whole statement sees the snapshot of its start. ``stale`` counts the pending runs that were open then, but were launched or
# skipped before their row was locked. The consequences, such as a restarted period or the pending run that a skip leaves (the
# conflict), are not visible here, so nothing of this statement may stay.
TAKE = _statement(f"""
WITH {LISTENING},
absorbed AS MATERIALIZED (
    SELECT listening.schedule, listening.generation, launch.pending_id, event_ids, leaves
      FROM held listening
     CROSS JOIN LATERAL ({ABSORBING} FOR UPDATE OF launch) launch
     WHERE listening.pending_id IS NULL
),
missing AS MATERIALIZED (
    SELECT substr(encode(sha256(convert_to(:batch || held.schedule || held.generation, 'UTF8')), 'hex'), 1, 32) AS pending_id,
           held.schedule, held.generation, event_ids, leaves, dag_id, priority
      FROM held
     CROSS JOIN LATERAL (
               SELECT dag_id, priority
                 FROM schedules
                WHERE name = held.schedule AND generation = held.generation
               OFFSET 0
           ) schedule
     WHERE held.pending_id IS NULL
       AND NOT EXISTS (SELECT 1 FROM absorbed WHERE schedule = held.schedule AND generation = held.generation)
),
begun AS (
    INSERT INTO pending_jobs ({NEW_JOB})
    SELECT pending_id, schedule, generation, dag_id, '{PendingState.TRIGGER.value}', priority, :now, :now, 0, '{{}}', '[]'
      FROM missing
        ON CONFLICT DO NOTHING
),
handed_over AS (
    INSERT INTO pending_events (pending_id, event_id, leaf)
    SELECT pending_id, unnest(event_ids), unnest(leaves)
      FROM (SELECT pending_id, event_ids, leaves FROM held WHERE pending_id IS NOT NULL
             UNION ALL
            SELECT pending_id, event_ids, leaves FROM absorbed
             UNION ALL
            SELECT pending_id, event_ids, leaves FROM missing) taker
),
woken AS (
    UPDATE pending_jobs SET next_check_at = :now WHERE pending_id = ANY (ARRAY(SELECT pending_id FROM held WHERE sleeps))
)
SELECT count(*) AS stale
  FROM held
 WHERE pending_id IS NULL
   AND (SELECT true FROM pending_jobs WHERE schedule = held.schedule AND generation = held.generation AND {OPEN} LIMIT 1)
""")


# --- SQLite: one writer at a time, so nothing moves between the statements ---------------------------------------------

# ``CROSS JOIN`` fixes the join order: from the few rows of the batch into the index.
ROOM = sa.text("CREATE TEMP TABLE IF NOT EXISTS matched (schedule TEXT, generation TEXT, leaf INTEGER, event_id INTEGER)")
CLEAR = sa.text("DELETE FROM temp.matched")
MATCH = _statement(f"""
INSERT INTO temp.matched (schedule, generation, leaf, event_id)
SELECT t.schedule, t.generation, t.leaf, e.id
  FROM events e
 CROSS JOIN schedule_triggers t ON {LISTENS}
 WHERE e.id > :after AND e.id <= :upto
""")
ABSORB = sa.text(f"""
INSERT INTO pending_events (pending_id, event_id, leaf)
SELECT pending_id, event_id, leaf
  FROM (SELECT ({ABSORBING}) AS pending_id, listening.event_id, listening.leaf
          FROM temp.matched listening
         WHERE NOT EXISTS (SELECT 1 FROM pending_jobs job
                            WHERE job.schedule = listening.schedule AND job.generation = listening.generation AND job.{OPEN}))
 WHERE pending_id IS NOT NULL
""")
BEGIN = _statement(f"""
INSERT INTO pending_jobs ({NEW_JOB})
SELECT lower(hex(randomblob(16))), listening.schedule, listening.generation, schedules.dag_id, '{PendingState.TRIGGER.value}',
       schedules.priority, :now, :now, 0, '{{}}', '[]'
  FROM (SELECT DISTINCT schedule, generation FROM temp.matched) listening
 CROSS JOIN schedules ON schedules.name = listening.schedule AND schedules.generation = listening.generation
 WHERE NOT EXISTS (SELECT 1 FROM pending_jobs job
                    WHERE job.schedule = listening.schedule AND job.generation = listening.generation AND job.{OPEN})
   AND ({ABSORBING}) IS NULL
""")
HAND_OVER = _statement(f"""
INSERT INTO pending_events (pending_id, event_id, leaf)
SELECT job.pending_id, matched.event_id, matched.leaf
  FROM temp.matched
 CROSS JOIN pending_jobs job ON job.schedule = matched.schedule AND job.generation = matched.generation AND job.{OPEN}
""")
WAKE = _statement(f"""
UPDATE pending_jobs
   SET next_check_at = :now
 WHERE {SLEEPS} AND {OPEN} AND (schedule, generation) IN (SELECT schedule, generation FROM temp.matched)
""")


class StaleBatch(Exception):
    """Pending runs changed between read and lock. Roll the transaction back; the next one must lock before it reads."""


def take(conn: sa.Connection, batch_id: str, after: int, upto: int, now: datetime, *, hold_first: bool = False) -> None:
    """Match the events of a range of numbers, and assign them. The caller holds the cursor's lock, and moves it.

    :param batch_id: new for each batch. On Postgres pending runs get hashes of it as ids, because random ids are slow.
    :param after: the range begins after this number and includes ``upto``.
    :param hold_first: lock the pending runs in a separate statement before they are read.
    :raises StaleBatch: roll back, and try again with ``hold_first``.
    """
    numbers, moment = {"after": after, "upto": upto}, {"now": now}
    if conn.dialect.name == "postgresql":
        if hold_first:
            conn.execute(HOLD, numbers | moment).one()
        if conn.execute(TAKE, numbers | moment | {"batch": batch_id}).scalar_one():
            raise StaleBatch
        return
    conn.execute(ROOM)
    conn.execute(CLEAR)
    if conn.execute(MATCH, numbers).rowcount:
        conn.execute(ABSORB)
        conn.execute(BEGIN, moment)
        conn.execute(HAND_OVER)
        conn.execute(WAKE, moment)
