"""The snapshot poller: what arrives in tables becomes events.

    Poller(store, catalog_name="lake", broker=Broker(config.load)).step()

It reads only tables that enabled schedules listen to, each from its head at the time when the first schedule began to listen. The
invariant: **each snapshot is one event.** The events of a table and the place up to which it was read are one transaction, and an
event has its snapshot's id, so that two pollers, or one that was killed, neither repeat nor skip an event.

The cost of a round follows what has changed: a table with the same metadata file is not read again, and all of these are
confirmed in one statement. How often a table is read follows its commits (:func:`period_of`). The most overdue table comes first;
one that could not be read, such as one that does not exist yet, is read again after the shortest period. One whose storage hangs
is set aside with a back-off, and is a problem on record like any other.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.iceberg.arrivals import EXPIRED, Arrival, Arrivals, HistoryPlace, place_at, read_arrivals
from airflow_snowpack.iceberg.broker import Broker, raise_outage
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.scheduling.events.event_log import Event, number_in_turn, publish
from airflow_snowpack.scheduling.sources.polled import SourcePoller
from airflow_snowpack.scheduling.sources.source import (
    ProblemKind,
    SourceProblem,
    found_in,
    found_with,
    record_problems,
    write_problem,
)
from airflow_snowpack.scheduling.triggers.trigger import ALL_CHANGES, TABLES, changes_key, table_key
from airflow_snowpack.store import Store, StoreError
from airflow_snowpack.store.dialect import UtcDateTime, insert, row_mapper
from airflow_snowpack.store.signs_of_life import SignOfLife
from airflow_snowpack.store.tables.schedules import schedule_triggers, source_problems, table_places
from airflow_snowpack.store.worker import Worker
from airflow_snowpack.timed_calls import TimedCalls

if TYPE_CHECKING:
    from pyiceberg.table import Table

log = logging.getLogger(__name__)

TABLES_PER_ROUND = 1_000
COMMIT_SHARE = 10
"""The period of a table is this part of the time since its last commit,"""
LONGEST_PERIOD = 6
"""and at most this many times the shortest period."""
FORGOTTEN_AFTER = timedelta(days=1)
"""A place that was read this long before the first present schedule began to listen belongs to schedules that are gone."""
PROBLEM = tuple(source_problems.c[name].label(f"problem_{name}") for name in ("kind", "problem", "began_at", "confirmed_at"))


@dataclass(frozen=True, slots=True)
class PollReport:
    """The result of one round.

    :param tables: how many were due.
    :param events: how many were published.
    :param problems: why a table could not be read, by its name.
    """

    tables: int = 0
    events: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Reading:
    """What was read of a table that has changed.

    :param row: the place up to which it had been read, and ``began_at``: when the read began, which may be in an earlier round.
    :param problem: what is wrong with the table although it could be read.
    """

    row: sa.Row[Any]
    began_at: datetime
    version: str
    arrivals: Arrivals
    problem: SourceProblem | None


class Poller:
    """Reads the tables that schedules listen to.

    :param broker: reads tables of the catalog.
    :param every: how often a table with frequent commits is read; see :func:`period_of`.
    :param patience: how long a step waits for tables; what takes longer is recorded by a later step. ``None``: for each table up
        to the limit of the broker.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog_name: str,
        broker: Broker,
        every: timedelta = timedelta(seconds=10),
        patience: timedelta | None = None,
    ) -> None:
        self._store = store
        self._patience = patience
        self._catalog_name = catalog_name
        self._broker = broker
        self._reads: TimedCalls[TableName, _Reading | None] = broker.reads()
        self._every = every
        self._other_sources = SourcePoller(store, every=every, patience=patience)
        self._problems: dict[TableName, Recurring] = {}
        self._failed_at: dict[str, datetime] = {}
        """When this poller last failed to read a table, by the key of the table."""

    def worker(self, sign: SignOfLife, pause: timedelta = timedelta(seconds=1)) -> Worker:
        """Return a worker that polls tables and the sources of other distributions in a separate thread: a catalog that does not
        answer delays nothing else.

        :param sign: reported after each step that succeeded and each table that was read; a thread that hangs reports none.
        :param pause: between two steps.
        """

        def poll() -> None:
            self._other_sources.step()
            self.step(sign)

        return Worker(poll, name="snowpack-poller", failure="tables_not_polled", every=pause, sign=sign)

    def step(self, sign: SignOfLife | None = None) -> PollReport:
        """Read each due table once; one that cannot be read, or whose storage hangs, does not delay the others.

        :param sign: of the poller; a step over many tables takes long.
        """
        due = self._due()
        if not due:
            return PollReport()
        began_at, published = self._store.clock(), 0
        try:
            known = {name: _known_version(row) for name, row in due.items()}
            found = self._broker.read(known, partial(_read, due, began_at), self._reads, patience=self._patience)
        except Exception as problem:
            self._note(due, dict.fromkeys(due, problem))
            raise
        unchanged: dict[TableName, sa.Row[Any]] = {}
        failed: dict[TableName, Exception] = {}
        read = set[TableName]()
        for name, result in found:
            read.add(name)
            if sign is not None and not isinstance(result, Exception):
                sign.beat()
            if isinstance(result, Exception):
                failed[name] = result
            elif result is None:
                unchanged[name] = due[name]
            else:
                try:  # at once: its events wait for no other table
                    published += self._record(name, due[name], result)
                except StoreError:
                    raise
                except Exception as problem:  # noqa: BLE001 - such as a number in its metadata that no database takes
                    failed[name] = problem
        self._confirm(unchanged, began_at)
        self._note(due, failed)
        if len(failed) == len(due):
            raise_outage(failed.values())
        self._log_problems(read, failed)
        problems = {str(name): found_with(problem, began_at).problem for name, problem in failed.items()}
        return PollReport(len(due), published, problems)

    def _log_problems(self, read: set[TableName], failed: Mapping[TableName, Exception]) -> None:
        for name in read - failed.keys():
            if (recovered := self._problems.pop(name, None)) is not None:
                recovered.passed()
        for name, problem in failed.items():
            self._problems.setdefault(name, Recurring(log)).failed(problem, "table_not_polled: %s", name)

    def _note(self, due: Mapping[TableName, sa.Row[Any]], failed: Mapping[TableName, Exception]) -> None:
        """Record why tables cannot be read, in one transaction; the explanation of a schedule names it."""
        now = self._store.clock()
        self._failed_at |= {due[name].listened_to: now for name in failed}
        found = {table_key(name): found_with(problem, now) for name, problem in failed.items()}
        record_problems(self._store, found, {table_key(name): _problem_in(due[name]) for name in failed})

    def _due(self) -> dict[TableName, sa.Row[Any]]:
        """Return the due tables, with the place up to which each was read, and since when a schedule listens to it."""
        now = self._store.clock()
        self._failed_at = {key: failed_at for key, failed_at in self._failed_at.items() if now - self._every < failed_at <= now}
        name = sa.func.replace(sa.func.substr(schedule_triggers.c.event_key, len(TABLES) + 1), ALL_CHANGES, "")
        # Grouped by itself: Postgres does not group by a column of JSON, which a place has.
        tables = (
            sa.select(name.label("listened_to"), sa.func.min(schedule_triggers.c.counts_from).label("since"))
            .where(sa.func.substr(schedule_triggers.c.event_key, 1, len(TABLES)) == TABLES)
            .group_by(name)
            .subquery()
        )
        query = (
            sa.select(tables, table_places, *PROBLEM)
            .outerjoin(table_places, table_places.c.table_key == tables.c.listened_to)
            .outerjoin(source_problems, source_problems.c.key == TABLES + tables.c.listened_to)
            .where(tables.c.listened_to.not_in(list(self._failed_at)))
            .where(sa.or_(table_places.c.look_at.is_(None), table_places.c.look_at <= now))
            .order_by(table_places.c.look_at.asc().nulls_first(), tables.c.listened_to)
            .limit(TABLES_PER_ROUND)
        )
        return {self._name(row.listened_to): row for row in self._store.all(query)}

    def _name(self, key: str) -> TableName:
        return TableName.parse(key.removeprefix(f"{self._catalog_name}."), catalog=self._catalog_name)

    def _record(self, name: TableName, now: sa.Row[Any], reading: _Reading) -> int:
        """Publish what arrived in a table, and move its place: one transaction. Returns the number of events.

        :param now: the table's row in this round.
        """
        found, row = reading.arrivals, reading.row

        def write(conn: sa.Connection) -> int:
            if found.changes:
                number_in_turn(conn)  # before any row, in the order in which clocks and their recovery lock them
            write_problem(conn, table_key(name), reading.problem, _problem_in(now))
            if not self._move(conn, name, _place_from(row), reading):
                return 0  # another poller was faster
            happened = [_event(name, arrival, found.new, reading) for arrival in found.new]
            # Asked here, since a schedule that began to count them after the round began may count a commit that was read.
            if conn.execute(sa.select(sa.exists().where(schedule_triggers.c.event_key == changes_key(name)))).scalar():
                happened += [_event(name, arrival, found.changes, reading, ALL_CHANGES) for arrival in found.changes]
            return publish(conn, self._store, happened)

        return self._store.transact(write)

    def _confirm(self, unchanged: Mapping[TableName, sa.Row[Any]], began_at: datetime) -> None:
        """Record that tables have not changed up to now: one statement for all of them.

        A place that another poller has moved meanwhile was read later, and stays. A table whose schedule was changed meanwhile
        stays due.
        """
        turns: defaultdict[datetime, list[str]] = defaultdict(list)
        for name, row in unchanged.items():
            turns[began_at + period_of(row.committed_at, began_at, self._every)].append(str(name))
        if not turns:
            return
        key = table_places.c.table_key
        next_look = sa.case(*((key.in_(names), sa.literal(at, UtcDateTime)) for at, names in turns.items()))
        statement = (
            sa.update(table_places)
            .where(key.in_([str(name) for name in unchanged]), table_places.c.read_at < began_at)
            .where(sa.or_(table_places.c.look_at.is_(None), table_places.c.look_at <= began_at))
            .values(read_at=began_at, look_at=next_look)
        )
        self._store.execute(statement)

    def _move(self, conn: sa.Connection, name: TableName, was: HistoryPlace | None, reading: _Reading) -> bool:
        to, began_at = reading.arrivals.head, reading.began_at
        look_at = began_at + period_of(to.committed_at, began_at, self._every)
        values = {**asdict(to), "read_at": began_at, "metadata_location": reading.version, "look_at": look_at}
        statement = insert(table_places).values(table_key=str(name), **values)
        if was is None:
            statement = statement.on_conflict_do_nothing()
        else:
            same = table_places.c.snapshot_id.is_not_distinct_from(was.snapshot_id)
            statement = statement.on_conflict_do_update(index_elements=["table_key"], set_=values, where=same)
        return conn.execute(statement.returning(table_places.c.table_key)).first() is not None


def period_of(committed_at: datetime | None, now: datetime, every: timedelta) -> timedelta:
    """Return the period in which a table is read: a tenth of the time since its last commit, within bounds.

    A table with a commit every minute is read as often as possible, one that gets its data once a day up to six times less often.
    The period is a whole multiple of the shortest one, which keeps tables together in the same rounds.

    :param committed_at: when the head of the table was committed; ``None`` for a table without a snapshot.
    :param every: the shortest period; the longest is :data:`LONGEST_PERIOD` times as long.
    """
    if committed_at is None or not every:
        return every
    return every * min(max((now - committed_at) // (every * COMMIT_SHARE), 1), LONGEST_PERIOD)


def _read(due: Mapping[TableName, sa.Row[Any]], began_at: datetime, name: TableName, table: Table) -> _Reading:
    """Read what arrived in a table that has changed."""
    row = due[name]
    place = _place_from(row)
    begins_at = None if place is None or row.since - row.read_at < FORGOTTEN_AFTER else place_at(table, row.since)
    arrivals = read_arrivals(table, begins_at or place or HistoryPlace.at(row.since))
    return _Reading(row, began_at, table.metadata_location, arrivals, found_in(table, began_at))


def _known_version(row: sa.Row[Any]) -> str | None:
    """Return the version of a table that was read; ``None`` where an unchanged table must be read again, since it had a
    problem.
    """
    problem = _problem_in(row)
    return row.metadata_location if problem is None or problem.kind is ProblemKind.UNPARTITIONED else None


def _event(name: TableName, arrival: Arrival, counted: Sequence[Arrival], reading: _Reading, counting: str = "") -> Event:
    """Return an arrival as an event."""
    expired, read_at = reading.arrivals.expired, reading.row.read_at
    detail: dict[str, Any] = {
        "table": name.dotted,
        "snapshot_id": arrival.snapshot_id,
        "operation": arrival.operation,
        "partitions": list(arrival.partitions),
    }
    if expired and arrival is counted[0]:
        detail["expired_before"] = expired
    # An expired commit has only its number, which starts again at 1 when a table is created again.
    known_by = arrival.snapshot_id if arrival.operation != EXPIRED else f"{arrival.table_uuid}:{arrival.sequence}"
    source = f"snapshot:{name}:{known_by}{counting}"
    # What is new arrived after the read before, also when the clock of its writer is behind.
    at = arrival.arrived_at if read_at is None else max(arrival.arrived_at, read_at)
    return Event(f"{table_key(name)}{counting}", at, arrival.to_amounts(), detail, source_id=source)


def _problem_in(row: sa.Row[Any]) -> SourceProblem | None:
    if row.problem_kind is None:
        return None
    return SourceProblem(ProblemKind(row.problem_kind), row.problem_problem, row.problem_began_at, row.problem_confirmed_at)


def _place_from(row: sa.Row[Any]) -> HistoryPlace | None:
    return None if row.read_at is None else _stored_place(row)


_stored_place = row_mapper(HistoryPlace, {"other_heads": lambda heads: tuple(heads or ())})
