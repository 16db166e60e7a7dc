"""The snapshot poller: what arrives in tables becomes events.

    Poller(store, catalog_name="lake", load_catalog=config.load).step()

It looks at the tables that enabled schedules listen to, and at no others. The invariant: **each snapshot is one event.**
The events of a table and the place up to which it was read are one transaction, and an event carries its snapshot's id,
so that two pollers, or one that died in between, publish nothing twice and pass nothing over.

A table is read from where it stood when the first schedule began to listen to it. The one whose turn was longest ago comes first,
and one that could not be read, such as one that is not there yet, is asked for again after the period that all have.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.iceberg.arrivals import EXPIRED, Arrival, Arrivals, Place, read_arrivals
from airflow_snowpack.iceberg.catalog import load_table
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.scheduling.events import Event, number_in_turn, publish
from airflow_snowpack.scheduling.source_problems import ProblemKind, SourceProblem, found_in, found_with, is_news, write_problem
from airflow_snowpack.scheduling.trigger import table_key
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import schedule_triggers, source_problems, table_places

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

log = logging.getLogger(__name__)

PREFIX = table_key(TableName("c", "d", "t")).removesuffix("c.d.t")
NO_WIDER_THAN = 1_000
PROBLEM = tuple(
    source_problems.c[name].label(f"problem_{label}")
    for name, label in (("kind", "kind"), ("problem", "says"), ("began_at", "began_at"), ("asked_at", "asked_at"))
)


@dataclass(frozen=True, slots=True)
class PollReport:
    """What one round found.

    :param tables: how many it looked at.
    :param events: how many it published.
    :param problems: why a table could not be read, by its name.
    """

    tables: int = 0
    events: int = 0
    problems: Mapping[str, str] = field(default_factory=dict)


class Poller:
    """Reads the tables that schedules listen to.

    :param load_catalog: connects to the catalog; called when it is needed.
    :param every: a table that some poller has read so recently is left alone.
    """

    def __init__(
        self,
        store: Store,
        *,
        catalog_name: str,
        load_catalog: Callable[[], Catalog],
        every: timedelta = timedelta(seconds=10),
    ) -> None:
        self._store = store
        self._catalog_name = catalog_name
        self._load_catalog = load_catalog
        self._every = every
        self._problems: defaultdict[str, Recurring] = defaultdict(lambda: Recurring(log))
        self._in_vain: dict[str, datetime] = {}
        """When this poller asked in vain, by the key of the table."""

    def step(self) -> PollReport:
        """Look at each table once; one that cannot be read does not keep the others from being read."""
        due = self._due()
        if not due:
            return PollReport()
        catalog, published, problems = self._load(due), 0, {}
        for table, row in due.items():
            self._in_vain[row.listened_to] = self._store.clock()
            try:
                published += self._read(catalog, table, row)
                del self._in_vain[row.listened_to]
                self._problems[str(table)].passed()
            except Exception as problem:  # noqa: BLE001 - a catalog raises anything; the other tables go on
                self._problems[str(table)].failed(problem, "table_not_polled: %s", table)
                known = isinstance(problem, SnowpackError)
                problems[str(table)] = str(problem) if known else f"{type(problem).__name__}: {problem}"
                self._note({table: row}, problem)
        return PollReport(len(due), published, problems)

    def _load(self, due: Mapping[TableName, sa.Row[Any]]) -> Catalog:
        try:
            return self._load_catalog()
        except Exception as problem:
            self._note(due, problem)
            raise

    def _note(self, rows: Mapping[TableName, sa.Row[Any]], problem: Exception) -> None:
        """Record why tables cannot be read; the explanation of a schedule names it."""
        found = found_with(problem)

        def write(conn: sa.Connection) -> None:
            for table, row in rows.items():
                write_problem(conn, self._store, table_key(table), found, _problem_in(row))

        if any(is_news(found, _problem_in(row), self._store.clock()) for row in rows.values()):
            self._store.transact(write)

    def _due(self) -> dict[TableName, sa.Row[Any]]:
        """The tables to look at, with the place up to which each was read, and since when anybody listens to it."""
        before = self._store.clock() - self._every
        self._in_vain = {key: asked_at for key, asked_at in self._in_vain.items() if before < asked_at <= self._store.clock()}
        name = sa.func.substr(schedule_triggers.c.event_key, len(PREFIX) + 1)
        # Grouped by itself: Postgres does not group by a column of JSON, which a place has.
        tables = (
            sa.select(name.label("listened_to"), sa.func.min(schedule_triggers.c.counts_from).label("since"))
            .where(sa.func.substr(schedule_triggers.c.event_key, 1, len(PREFIX)) == PREFIX)
            .where(name.not_in(list(self._in_vain)))
            .group_by(name)
            .subquery()
        )
        query = (
            sa.select(tables, table_places, *PROBLEM)
            .join(table_places, table_places.c.table_key == tables.c.listened_to, isouter=True)
            .join(source_problems, source_problems.c.key == PREFIX + tables.c.listened_to, isouter=True)
            .where(sa.or_(table_places.c.read_at.is_(None), table_places.c.read_at <= before))
            .order_by(table_places.c.read_at.asc().nulls_first(), tables.c.listened_to)
            .limit(NO_WIDER_THAN)
        )
        rows = self._store.read(lambda conn: conn.execute(query).all())
        return {self._name(row.listened_to): row for row in rows}

    def _name(self, key: str) -> TableName:
        return TableName.parse(key.removeprefix(f"{self._catalog_name}."), catalog=self._catalog_name)

    def _read(self, catalog: Catalog, name: TableName, row: sa.Row[Any]) -> int:
        place, asked_at = _place_from(row), self._store.clock()
        table = load_table(catalog, name)
        found = read_arrivals(table, place or Place.at(row.since))
        if found.expired:
            log.warning("snapshots_expired_unread: %s of %s were expired before they were read", found.expired, name)

        def write(conn: sa.Connection) -> int:
            if found.new:
                number_in_turn(conn)  # before any row, in the order in which clocks and a set-back take them
            write_problem(conn, self._store, table_key(name), found_in(table), _problem_in(row))
            if not self._move(conn, name, place, found.head, asked_at):
                return 0  # another poller was here
            return publish(conn, self._store, [_event(name, arrival, found, row.read_at) for arrival in found.new])

        return self._store.transact(write)

    def _move(self, conn: sa.Connection, name: TableName, was: Place | None, to: Place, asked_at: datetime) -> bool:
        insert = postgresql.insert if self._store.is_postgres else sqlite.insert
        values: dict[str, Any] = {
            "snapshot_id": to.snapshot_id,
            "sequence": to.sequence,
            "committed_at": to.committed_at,
            "table_uuid": to.table_uuid,
            "other_heads": list(to.other_heads),
            "total_records": to.total_records,
            "read_at": asked_at,
        }
        statement = insert(table_places).values(table_key=str(name), **values)
        if was is None:
            statement = statement.on_conflict_do_nothing()
        else:
            same = table_places.c.snapshot_id.is_not_distinct_from(was.snapshot_id)
            statement = statement.on_conflict_do_update(index_elements=["table_key"], set_=values, where=same)
        return conn.execute(statement.returning(table_places.c.table_key)).first() is not None


def _event(name: TableName, arrival: Arrival, found: Arrivals, read_at: datetime | None) -> Event:
    """What arrived, as an event.

    :param read_at: when the table was read before: what is new has arrived since, whatever the clock of its writer says.
    """
    detail: dict[str, Any] = {
        "table": name.dotted,
        "snapshot_id": arrival.snapshot_id,
        "operation": arrival.operation,
        "partitions": list(arrival.partitions),
    }
    if found.expired and arrival is found.new[0]:
        detail["expired_before"] = found.expired
    # An expired commit is known by its number, which starts again at 1 in a table that is created again.
    known_by = arrival.snapshot_id if arrival.operation != EXPIRED else f"{arrival.table_uuid}:{arrival.sequence}"
    source = f"snapshot:{name}:{known_by}"
    at = arrival.arrived_at if read_at is None else max(arrival.arrived_at, read_at)
    return Event(table_key(name), at, arrival.to_amounts(), detail, source_id=source)


def _problem_in(row: sa.Row[Any]) -> SourceProblem | None:
    if row.problem_kind is None:
        return None
    return SourceProblem(ProblemKind(row.problem_kind), row.problem_says, row.problem_began_at, row.problem_asked_at)


def _place_from(row: sa.Row[Any]) -> Place | None:
    if row.read_at is None:
        return None
    return Place(row.snapshot_id, row.sequence, row.committed_at, row.table_uuid, tuple(row.other_heads or ()), row.total_records)
