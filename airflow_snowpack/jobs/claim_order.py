"""The order in which workers claim jobs: the highest priority first, and within a priority the databases in turn.

A job gets its ``turn`` at submission: the turn after the last waiting job of its database, but not before the turn being claimed.
Each database therefore has one job per turn, an idle database joins in the current turn, and a single job never waits for the
whole backlog of another database. This is start-time fair queueing. A submit pays two index look-ups, a claim none. While no job
waits, turns follow the clock: one turn per :data:`TICK`.

A job that leaves the queue out of order, by a cancel or a claim by id, leaves its turn unused. The later jobs of its database
then move up (:func:`close_gaps`), the first of them to this turn and never before it: no database gets its current turn twice.

Jobs submitted at the same moment may share a turn; the older one is first. The queue stores a priority as its negative, ``rank``,
so that the whole order is ascending and one index covers it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import sqlalchemy as sa

from airflow_snowpack.jobs.errors import InvalidPriority
from airflow_snowpack.jobs.model import PRIORITIES
from airflow_snowpack.store.dialect import UtcDateTime
from airflow_snowpack.store.leases import EVER
from airflow_snowpack.store.tables.jobs import job_queue

RESCAN = timedelta(seconds=2)
TICK = timedelta(milliseconds=10)
"""The length of a turn while no job waits.

Submits that race for an empty queue do not see each other. Their turns differ by the ticks between them, and the later database
waits for that many jobs of the other one. A longer tick makes these fewer, but lets turns run ahead of the clock sooner: turns
that follow the clock again are then below the cursor, which skips such jobs for up to :data:`RESCAN`.
"""

FRONT = 0
"""Before every turn: a requeued job has already had its turn."""

ORDER = (job_queue.c.rank, job_queue.c.turn, job_queue.c.enqueued_at)


class QueuePosition(NamedTuple):
    rank: int
    turn: int
    enqueued_at: datetime

    @classmethod
    def of(cls, row: Any) -> QueuePosition:
        """Return the place of a row, or of any value with these attributes."""
        return cls(row.rank, row.turn, row.enqueued_at)

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The parameters of :data:`FROM_HERE`."""
        return {"b_rank": self.rank, "b_turn": self.turn, "b_enqueued_at": self.enqueued_at}


START = QueuePosition(-(2**31), FRONT, EVER)
"""Before every job."""

_turn = sa.bindparam("b_turn", type_=sa.BigInteger)
_here = sa.tuple_(sa.bindparam("b_rank", type_=sa.Integer), _turn, sa.bindparam("b_enqueued_at", type_=UtcDateTime))
FROM_HERE = sa.tuple_(*ORDER) >= _here


def check_priority(priority: int) -> int:
    """:raises InvalidPriority: it is not one of :data:`PRIORITIES`."""
    # True and 1.0 equal 1, and the database would store either.
    if isinstance(priority, bool) or not isinstance(priority, int) or priority not in PRIORITIES:
        raise InvalidPriority(priority)
    return priority


def turn_of(moment: datetime) -> int:
    """Return the current turn while no job waits: the parameter ``b_turn`` of :func:`next_turn`."""
    return (moment - EVER) // TICK


def next_turn(catalog_id: sa.ColumnElement[str], rank: sa.ColumnElement[int], database: sa.ColumnElement[str]) -> Any:
    """Return the turn of a job that is submitted now."""
    waiting = job_queue.alias("waiting")
    same = sa.and_(waiting.c.claimed_at.is_(None), waiting.c.catalog_id == catalog_id, waiting.c.rank == rank)
    same = sa.and_(same, waiting.c.turn > sa.literal_column(f"{FRONT}"))
    # Literal limits, as in ``leases.py``.
    one: sa.ColumnClause[int] = sa.literal_column("1", sa.Integer)
    last = sa.select(waiting.c.turn + one).where(same, waiting.c.database_name == database).order_by(waiting.c.turn.desc())
    # Only if the database has no waiting job: otherwise this is at most the turn of its first one.
    present = sa.select(waiting.c.turn).where(same).order_by(waiting.c.turn)
    return sa.func.coalesce(last.limit(one).scalar_subquery(), present.limit(one).scalar_subquery(), _turn)


def is_in_turn(conn: sa.Connection, queue: tuple[str, int, str], turn: int) -> bool:
    """Return whether a job that left the queue was due by the current turn, and so leaves no turn unused."""
    catalog_id, rank, _ = queue
    earlier = conn.execute(EARLIER, {"b_group": catalog_id, "b_rank": rank, "b_turn": turn})
    return earlier.first() is None


def close_gaps(conn: sa.Connection, gaps: Iterable[tuple[str, int, str, int]]) -> None:
    """Move up the waiting jobs behind jobs that left the queue out of order, given as catalog id, rank, database and turn."""
    first: dict[tuple[str, int, str], int] = {}
    for catalog_id, rank, database, turn in sorted(gaps):
        if turn > FRONT:
            first.setdefault((catalog_id, rank, database), turn)
    for (catalog_id, rank, database), turn in first.items():
        conn.execute(MOVE_UP, {"b_group": catalog_id, "b_rank": rank, "b_database": database, "b_turn": turn})


def _waiting_beside(waiting: sa.FromClause) -> sa.ColumnElement[bool]:
    same = sa.and_(waiting.c.claimed_at.is_(None), waiting.c.catalog_id == sa.bindparam("b_group", type_=sa.Text))
    return sa.and_(same, waiting.c.rank == sa.bindparam("b_rank", type_=sa.Integer), waiting.c.turn > sa.literal(FRONT))


def _earlier() -> sa.Select[Any]:
    waiting = job_queue.alias("waiting")
    return sa.select(waiting.c.turn).where(_waiting_beside(waiting), waiting.c.turn < _turn).limit(1)


def _move_up() -> sa.Update:
    waiting = job_queue.alias("waiting")
    theirs = sa.and_(_waiting_beside(waiting), waiting.c.database_name == sa.bindparam("b_database", type_=sa.Text))
    number = sa.func.row_number().over(order_by=(waiting.c.turn, waiting.c.enqueued_at))
    latest = (_turn + number - 1).label("latest")
    places = sa.select(waiting.c.job_id, latest).where(theirs, waiting.c.turn >= _turn).subquery("places")
    late = sa.and_(job_queue.c.job_id == places.c.job_id, job_queue.c.claimed_at.is_(None), job_queue.c.turn > places.c.latest)
    return sa.update(job_queue).where(late).values(turn=places.c.latest)


EARLIER, MOVE_UP = _earlier(), _move_up()


class ClaimCursor:
    """The place from which the next claim searches, so that it does not scan jobs that were claimed before.

    While another session holds an old snapshot, Postgres cannot remove the index entries of finished rows, and a scan from the
    start of the queue would visit all of them at every claim. The cursor starts where the last claim succeeded. It returns to the
    start when nothing is found and at least every :data:`RESCAN`, because jobs of higher priority and returned jobs have places
    before it, and a slow transaction may commit an older job late.
    """

    def __init__(self) -> None:
        self._start = START
        self._reset_at = EVER

    def start(self, now: datetime) -> QueuePosition:
        if not timedelta(0) <= now - self._reset_at < RESCAN:  # a clock may be set back
            self._start, self._reset_at = START, now
        return self._start

    def found(self, place: QueuePosition) -> None:
        """Record that a claim took the row at this place."""
        self._start = max(self._start, place)

    def exhausted(self, now: datetime) -> bool:
        """Return to the start after nothing was found; return ``True`` if another try at once is worthwhile."""
        again = self._start > START
        self._start, self._reset_at = START, now
        return again
