"""Plan a pass: list the catalog once, read what has changed, plan what may need work, and choose what the budget allows.

    planner = FleetPlanner(passes, broker, records, policies, list_tables=list_tables, histories=jobs.action_histories)
    planned = planner.plan(planning)

A table costs only its row in the listing if its last plan had nothing to do and need not be reconsidered yet, and neither its
metadata location nor the policies have changed since. If only the policies or the time have changed, it is planned from stored
health. The invariant: an unreadable table becomes an entry with the reason, and the others are planned.
"""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack import __version__
from airflow_snowpack.iceberg.broker import is_same_file, raise_outage
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableNotFound
from airflow_snowpack.iceberg.health import TableHealth, read_health
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.jobs.action_history import ActionHistory
from airflow_snowpack.maintenance.fleet.holds import held_reason, hold_of, waits_for_producers, writers_after
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PlannedTable
from airflow_snowpack.maintenance.fleet.passes import BEAT, PASS_LEASE, FleetPasses
from airflow_snowpack.maintenance.fleet.ranking import deadline_of, rank, select
from airflow_snowpack.maintenance.planning.table_plan import plan_table
from airflow_snowpack.maintenance.removals.records import Removals
from airflow_snowpack.maintenance.writers import RecentDags
from airflow_snowpack.store.keep_alive import KeepAlive

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from airflow_snowpack.iceberg.broker import Broker
    from airflow_snowpack.inventory.health_records import HealthRecords
    from airflow_snowpack.maintenance.fleet.holds import Hold
    from airflow_snowpack.maintenance.policies import Policies
    from airflow_snowpack.maintenance.writers import DagsOfTables

log = logging.getLogger(__name__)
T = TypeVar("T")

BATCH_SIZE = 200
"""How many tables are planned at a time from health in memory."""
HEALTH_LIMIT = timedelta(minutes=15)
"""How long reading all manifests of one table may take."""
USUAL_PERIOD = timedelta(days=1)
"""The assumed time between passes until there were two."""
LONGEST_PERIOD = timedelta(days=7)

Listing = Mapping[TableName, str | None]
"""The tables of a catalog with their metadata locations; ``None`` where only loading the table returns it."""


@dataclass
class _Planning:
    """The results of planning so far; ``dags`` returns the DAGs that write to and read tables, ``None``: they do not matter."""

    dags: Callable[[], DagsOfTables] | None = None
    counts: Counter[str] = field(default_factory=Counter)
    in_need: list[PassEntry] = field(default_factory=list)
    reads_per_day: dict[TableName, float] = field(default_factory=dict)
    held: list[PassEntry] = field(default_factory=list)
    unreadable: list[PassEntry] = field(default_factory=list)
    planned: list[PlannedTable] = field(default_factory=list)


class FleetPlanner:
    """Plans passes over one catalog.

    :param broker: reads tables of the catalog.
    :param list_tables: returns all tables of the catalog; see :func:`.listing.list_catalog`.
    :param histories: returns what past jobs did to tables, in one statement.
    :param dags_of_tables: returns the DAGs that write to and read tables; called when a table needs work, and again when the
        answer is minutes old. ``None``: they do not matter.
    :param order: the installation's order of actions.
    """

    def __init__(
        self,
        passes: FleetPasses,
        broker: Broker,
        records: HealthRecords,
        policies: Policies,
        *,
        list_tables: Callable[[], Listing],
        histories: Callable[[Collection[TableName]], Mapping[TableName, ActionHistory]],
        dags_of_tables: Callable[[], DagsOfTables] | None = None,
        order: Sequence[str] = (),
    ) -> None:
        self._passes = passes
        self._store = passes.store
        self._broker = broker
        self._records = records
        self._policies = policies
        self._digest = digest_of(policies)
        self._list_tables = list_tables
        self._histories = histories
        self._dags = None if dags_of_tables is None else RecentDags(dags_of_tables, self._store.clock)
        self._order = tuple(order)

    def plan(self, planning: Pass) -> Pass:
        """Plan a pass and store its plan.

        :raises PassTakenOver: another process plans the pass; this one only stored the health that it read.
        :raises CatalogUnreachable: the catalog does not answer; a retry plans the pass.
        """
        what = f"the planning of pass {planning.pass_id}"
        with KeepAlive(lambda: self._passes.renew(planning), every=BEAT, lost_after=PASS_LEASE, what=what):
            return self._plan(planning)

    def refresh(self, table: TableName) -> None:
        """Read and plan a maintained table, to save the next pass from it."""
        found = _Planning()
        self._read({table: None}, found, self._passes.plan_of(table))
        self._passes.remember(found.planned)

    def hold(self, table: Table, entry: PassEntry) -> Hold | None:
        """Return why the job of a table, planned perhaps hours ago, does not start now; ``None`` if it may."""
        now, name = self._store.clock(), entry.table
        held_since = next((row.held_since for row in self._passes.plan_of(name).values()), None)
        writers = None if self._dags is None else partial(writers_after, name, held_since, now, self._dags)
        return hold_of(entry, self._policies.of(name, owner_properties(table)), writers, now)

    def _plan(self, planning: Pass) -> Pass:
        found = _Planning(self._dags)
        listing, last = self._list_tables(), self._passes.last_plans(planning.catalog, planning.catalog_id)
        to_read = self._plan_stored(listing, last, found)
        self._read(to_read, found, last)
        entries = self._choose(planning, found)
        counts = {"listed": len(listing), "planned": len(found.planned), **found.counts}
        gone = last.keys() - {table.lock_key for table in listing}
        return self._passes.plan(planning, entries, found.planned, counts, gone)

    def _plan_stored(self, listing: Listing, last: Mapping[str, Any], found: _Planning) -> dict[TableName, str | None]:
        """Plan tables from stored health; return the tables to read, each with its known version."""
        now, doubtful = self._store.clock(), dict[TableName, str | None]()
        for table, location in listing.items():
            row = last.get(table.lock_key)
            if self._policies.excludes(table):
                found.counts["excluded"] += 1
            elif row is not None and location is not None and self._is_up_to_date(row, location, now):
                found.counts["unchanged"] += 1
            else:
                doubtful[table] = location
        to_read: dict[TableName, str | None] = {}
        for batch in _batches(doubtful, BATCH_SIZE):
            stored = self._records.get(batch)
            current: dict[TableName, TableHealth] = {}
            for table in batch:
                record, location = stored.get(table), doubtful[table]
                health = None if record is None else record.health
                if health is not None and location is None:
                    to_read[table] = health.metadata_location
                elif health is not None and is_same_file(location, health.metadata_location) and self._fits(table, health):
                    current[table] = health
                else:
                    to_read[table] = None
            self._plan_batch(current, found, last)
        return to_read

    def _is_up_to_date(self, row: Any, location: str | None, now: datetime) -> bool:
        """Return whether the last plan of a table had nothing to do, and nothing has changed since."""
        if row.needs_work or row.policy != self._digest or not is_same_file(location, row.metadata_location):
            return False
        return row.reconsider_at is None or now < row.reconsider_at

    def _fits(self, table: TableName, health: TableHealth) -> bool:
        """Return whether the health was read with the bounds of the current policy."""
        return self._policies.of(table, health.properties).bounds == health.bounds

    def _read(self, to_read: Mapping[TableName, str | None], found: _Planning, last: Mapping[str, Any]) -> None:
        """Read the health of tables, several at a time, and plan them."""
        now, problems, fresh = self._store.clock(), list[Exception](), dict[TableName, TableHealth]()

        def process(name: TableName, table: Table) -> TableHealth:
            return read_health(table, now=now, bounds=self._policies.of(name, owner_properties(table)).bounds)

        unchanged: dict[TableName, str | None] = {}
        for table, result in self._broker.read(to_read, process, self._broker.reads(HEALTH_LIMIT)):
            if result is None:
                unchanged[table] = to_read[table]
            elif isinstance(result, TableNotFound):
                found.counts["gone"] += 1  # dropped since the listing
            elif isinstance(result, Exception):
                problems.append(result)
                self._note_unreadable(table, result, found)
            else:
                self._records.put(table, result)
                found.counts["read"] += 1
                fresh[table] = result
            if len(fresh) >= BATCH_SIZE:
                self._plan_batch(fresh, found, last)
                fresh = {}
        if problems and len(problems) == len(to_read):
            raise_outage(problems)
        self._plan_batch(fresh, found, last)
        # Only loading these tables has shown that their stored health is current.
        if unchanged and (reread := self._plan_stored(unchanged, last, found)):
            self._read(reread, found, last)

    def _note_unreadable(self, table: TableName, problem: Exception, found: _Planning) -> None:
        reason = str(problem) or type(problem).__name__
        log.warning("table_unreadable: %s: %s", table, reason)
        if not isinstance(problem, CatalogUnreachable):  # then the table's stored health may still be current
            self._records.unreadable(table, "", reason)
        now = self._store.clock()
        found.unreadable.append(PassEntry(table, 0, EntryState.UNREADABLE, reason=reason, ended_at=now))

    def _plan_batch(self, healths: Mapping[TableName, TableHealth], found: _Planning, last: Mapping[str, Any]) -> None:
        if not healths:
            return
        now, histories = self._store.clock(), self._histories(healths.keys())
        removed = cache(lambda: Removals(self._store).tables_with_deleted_orphans(healths.keys()))
        for table, health in healths.items():
            policy, history = self._policies.of(table, health.properties), histories.get(table, ActionHistory())
            row = last.get(table.lock_key)
            waited, held_since = (0, None) if row is None else (row.passes_waited, row.held_since)
            writers = None if found.dags is None else partial(writers_after, table, held_since, now, found.dags)
            try:
                plan = plan_table(
                    health,
                    policy,
                    now=now,
                    history=history,
                    writers=writers,
                    order=self._order,
                    first_removal=partial(_is_first, health, removed),
                )
            except Exception as problem:  # metadata may contain anything; the other tables are planned
                log.warning("table_not_planned: %s", table, exc_info=True)
                reason = f"It cannot be planned: {type(problem).__name__}: {problem}"
                found.unreadable.append(PassEntry(table, 0, EntryState.UNREADABLE, reason=reason, ended_at=now))
                continue
            runs, held = bool(plan.actions), None
            if runs:
                deadline = deadline_of(plan, policy, history)
                entry = PassEntry(table, 0, EntryState.CHOSEN, plan=plan, deadline=deadline, passes_waited=waited)
                found.in_need.append(entry)
                if found.dags is not None:
                    found.reads_per_day[table] = found.dags().reads(table)
            elif policy.skip is not None:
                found.counts["excluded"] += 1
            elif (held := held_reason(plan)) is not None:
                found.held.append(PassEntry(table, 0, EntryState.WAITING, reason=held, ended_at=plan.made_at))
            else:
                found.counts["healthy"] += 1
            needs_work = runs or held is not None
            waits = waits_for_producers(plan)
            waited, held_since = waited + (not runs and waits) if needs_work else 0, (held_since or now) if waits else None
            place = (table, plan.metadata_location, self._digest)
            found.planned.append(PlannedTable(*place, needs_work, plan.reconsider_at, waited, held_since))

    def _choose(self, planning: Pass, found: _Planning) -> list[PassEntry]:
        """Rank the tables that need work, and return the entries of the pass."""
        now, before = self._store.clock(), self._passes.previous(planning)
        period = USUAL_PERIOD if before is None else min(planning.started_at - before, LONGEST_PERIOD)
        ranked = rank(found.in_need, found.reads_per_day, due_by=planning.started_at + period)
        selection = select(ranked, planning.budget, workers=planning.workers)
        entries = [_selected(replace(each, place=place), reason, now) for place, (each, reason) in enumerate(selection)]
        aged = {entry.table for entry in entries if entry.state is EntryState.WAITING}
        found.planned = [_aged(each) if each.table in aged else each for each in found.planned]
        found.counts["chosen"] = len(entries) - len(aged)
        return [*entries, *_number_from(len(entries), [*found.held, *found.unreadable])]


def _is_first(health: TableHealth, removed: Callable[[], Collection[str]]) -> bool:
    return health.table_uuid not in removed()


def digest_of(policies: Policies) -> str:
    """Return a digest that changes with the policies and with the release that plans by them."""
    rules = [(rule.patterns, rule.exclude, sorted(rule.values.items())) for rule in policies.rules]
    return hashlib.sha256(f"{__version__} {rules!r}".encode()).hexdigest()[:16]


def _selected(entry: PassEntry, reason: str | None, now: datetime) -> PassEntry:
    return entry if reason is None else replace(entry, state=EntryState.WAITING, reason=reason, ended_at=now)


def _aged(planned: PlannedTable) -> PlannedTable:
    return replace(planned, passes_waited=planned.passes_waited + 1)


def _number_from(first: int, entries: Iterable[PassEntry]) -> Iterator[PassEntry]:
    """Number unranked entries after the ranked ones."""
    for place, entry in enumerate(entries, first):
        yield replace(entry, place=place)


def _batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch
