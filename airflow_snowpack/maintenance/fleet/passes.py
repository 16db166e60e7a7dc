"""Passes and their entries in the store.

    passes = FleetPasses(store)
    planning = passes.begin("dag/run/plan", "lake", "c0ffee", budget, workers=4, holder="pod-1")    # or resume it
    passes.plan(planning, entries, tables, counts)      # once, fenced
    passes.list(); passes.get(pass_id); passes.entries(pass_id)

The invariant: **a pass is planned once.** Its entries, which reserve the budget, are written in one transaction under the fence
of the planning process. A process that was replaced writes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.errors import PassNotFound, PassTakenOver
from airflow_snowpack.maintenance.fleet.model import EntryState, Pass, PassEntry, PassState, PlannedTable
from airflow_snowpack.maintenance.fleet.rows import (
    BY_PLACE,
    ENTRY,
    NEWEST_FIRST,
    PASS,
    PASSES,
    TABLE,
    entry_from,
    entry_row,
    pass_from,
)
from airflow_snowpack.store import IdMaker, Page, Store, insert, new_id, repeatable, storable, upsert
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_passes, fleet_tables

if TYPE_CHECKING:
    from airflow_snowpack.iceberg.names import TableName

PAGE_SIZE = 100
OPEN = PASS.ended_at.is_(None)
BEAT, PASS_LEASE = timedelta(minutes=1), timedelta(minutes=30)
"""How often the process that plans a pass, or works on it alone, renews its lease, and how long the lease lasts."""


class FleetPasses:
    """The passes of all catalogs; ``make_id`` generates pass ids and fences."""

    def __init__(self, store: Store, make_id: IdMaker = new_id) -> None:
        self.store = store
        self._make_id = make_id

    def begin(self, owner: str, catalog: str, catalog_id: str, budget: Budget, *, workers: int, holder: str) -> Pass:
        """Begin a pass, or resume the owner's open pass: take over its planning unless it is planned.

        :param owner: such as ``dag/run/task``. A retry of the task has the same owner, and resumes the pass with its budget.
        :param holder: the planning process, for people.
        """
        now, fence, owner = self.store.clock(), self._make_id(), storable(owner)
        mine = sa.select(fleet_passes).where(PASS.owner == owner, OPEN)
        new = {
            "pass_id": self._make_id(),
            "owner": owner,
            "catalog": catalog,
            "catalog_id": catalog_id,
            "state": PassState.PLANNING.value,
            "budget": budget.to_json(),
            "workers": workers,
            "started_at": now,
            "counts": {},
            "visible_at": now,
            "attempt_count": 0,
        }

        def write(conn: sa.Connection) -> Pass:
            conn.execute(insert(fleet_passes).on_conflict_do_nothing(), new)
            row = conn.execute(mine.with_for_update()).one()
            if row.state != PassState.PLANNING.value:
                return pass_from(row)
            values = PASSES.claim_values(storable(holder), fence, now, now + PASS_LEASE, key=row.pass_id)
            conn.execute(PASSES.take_over, values)
            return pass_from(conn.execute(mine).one())

        return self.store.transact(write)

    def renew(self, planning: Pass) -> bool:
        """Renew the lease of the planning; ``False``: another process has taken it over."""
        until = self.store.clock() + PASS_LEASE
        return self.store.transact(lambda conn: PASSES.renew(conn, planning.pass_id, planning.attempt_id, until))

    def keep(self, pass_id: str) -> bool:
        """Renew the lease of a pass, planned or not; ``False``: it has ended."""
        kept = sa.update(fleet_passes).where(PASS.pass_id == pass_id, OPEN)
        until = self.store.clock() + PASS_LEASE
        return self.store.single(lambda conn: conn.execute(kept.values(visible_at=until)).rowcount == 1)

    def last_plans(self, catalog: str, catalog_id: str) -> dict[str, sa.Row[Any]]:
        """Return the last plan of each table of a catalog by lock key, in one statement."""
        query = sa.select(fleet_tables).where(TABLE.catalog == catalog, TABLE.catalog_id == catalog_id)
        return {row.table_key: row for row in self.store.all(query)}

    def plan_of(self, table: TableName) -> dict[str, sa.Row[Any]]:
        """Return the last plan of one table by its lock key; empty if the table was never planned."""
        return {row.table_key: row for row in self.store.all(sa.select(fleet_tables).where(TABLE.table_key == table.lock_key))}

    def remember(self, tables: Collection[PlannedTable]) -> None:
        """Store the plans of tables that were planned outside of a pass's planning."""
        now = self.store.clock()
        rows = sorted((_table_row(each, now) for each in tables), key=lambda row: str(row["table_key"]))
        if rows:
            self.store.execute(upsert(fleet_tables, [name for name in rows[0] if name != "table_key"]), rows)

    def previous(self, planning: Pass) -> datetime | None:
        """Return when the latest pass of another run of the same DAG over the same catalog began; ``None`` for none.

        Passes of the same run or of users do not count, because they do not make the next run earlier.
        """
        of_catalog = PASS.catalog == planning.catalog, PASS.catalog_id == planning.catalog_id
        of_dag = PASS.owner.startswith(planning.owner.partition("/")[0] + "/", autoescape=True)
        earlier = sa.and_(*of_catalog, of_dag, PASS.owner != planning.owner, PASS.started_at < planning.started_at)
        query = sa.select(PASS.started_at).where(earlier).order_by(PASS.started_at.desc()).limit(1)
        began: datetime | None = self.store.scalar(query)
        return began

    def plan(
        self,
        planning: Pass,
        entries: Sequence[PassEntry],
        tables: Collection[PlannedTable],
        counts: Mapping[str, int],
        gone: Collection[str] = (),
    ) -> Pass:
        """Store the plan of a pass and so reserve its budget, in one transaction and only once.

        :param tables: the plans of the tables that were planned now.
        :param gone: the keys of tables that the catalog no longer has.
        :raises PassTakenOver: another process plans the pass; nothing was written.
        """
        now, pass_id = self.store.clock(), planning.pass_id
        fenced = sa.and_(PASS.pass_id == pass_id, PASS.attempt_id == planning.attempt_id)
        this = sa.select(fleet_passes).where(fenced)
        done = {"state": PassState.RUNNING.value, "planned_at": now, "counts": dict(counts)}
        rows = [entry_row(pass_id, entry) for entry in entries]
        # In a fixed order, so that concurrent passes over the same tables cannot deadlock.
        plans = sorted((_table_row(each, now) for each in tables), key=lambda row: str(row["table_key"]))

        def write(conn: sa.Connection) -> Pass:
            planned = sa.update(fleet_passes).where(fenced, PASS.state == PassState.PLANNING.value).values(done)
            if conn.execute(planned).rowcount != 1:
                raise PassTakenOver(pass_id)
            if rows:
                conn.execute(sa.insert(fleet_entries), rows)
            if plans:
                changed = [name for name in plans[0] if name != "table_key"]
                conn.execute(upsert(fleet_tables, changed), plans)
            if gone:
                forget = sa.delete(fleet_tables).where(TABLE.table_key == sa.bindparam("b_key"))
                conn.execute(forget, [{"b_key": key} for key in sorted(gone)])
            return pass_from(conn.execute(this).one())

        def planned_before(conn: sa.Connection) -> Pass | None:
            row = conn.execute(this.where(PASS.planned_at == now)).first()
            return None if row is None else pass_from(row)

        return self.store.transact(repeatable(write, planned_before))

    def keep_report(self, reported: Pass, report: Mapping[str, Any]) -> None:
        """Store the report of an open pass, and the pass's end if it has ended. The report of an ended pass never changes."""
        values = {"state": reported.state.value, "ended_at": reported.ended_at, "report": dict(report)}
        self.store.execute(sa.update(fleet_passes).where(PASS.pass_id == reported.pass_id, OPEN).values(values))

    def get(self, pass_id: str) -> Pass:
        """:raises PassNotFound: there is no such pass."""
        row = self.store.first(sa.select(fleet_passes).where(PASS.pass_id == storable(pass_id)))
        if row is None:
            raise PassNotFound(pass_id)
        return pass_from(row)

    def ids_beginning(self, beginning: str, *, limit: int = 10) -> Sequence[str]:
        """Return the pass ids with this prefix."""
        return self.store.ids_beginning(PASS.pass_id, beginning, limit)

    def list(self, *, limit: int = PAGE_SIZE, cursor: str | None = None) -> Page[Pass]:
        """List the passes, newest first.

        :param cursor: ``next`` of the page before.
        :raises InvalidCursor: no page returned it.
        """
        query = sa.select(fleet_passes).where(*NEWEST_FIRST.beyond(cursor)).order_by(*NEWEST_FIRST.order()).limit(limit + 1)
        return NEWEST_FIRST.page(self.store.all(query), limit, pass_from)

    def open(self, catalog: str | None = None, catalog_id: str = "") -> Sequence[Pass]:
        """Return the open passes over a catalog, or over all, oldest first."""
        query = sa.select(fleet_passes).where(OPEN)
        query = query if catalog is None else query.where(PASS.catalog == catalog, PASS.catalog_id == catalog_id)
        return [pass_from(row) for row in self.store.all(query.order_by(PASS.started_at))]

    def entries(self, pass_id: str, states: Collection[EntryState] = ()) -> Sequence[PassEntry]:
        """Return the entries of a pass in order; only those in the given states, if any."""
        query = sa.select(fleet_entries).where(ENTRY.pass_id == storable(pass_id)).order_by(*BY_PLACE.order())
        query = query.where(ENTRY.state.in_([state.value for state in states])) if states else query
        return [entry_from(row) for row in self.store.all(query)]

    def latest_entry(self, table: TableName) -> PassEntry | None:
        """Return a table's entry in the newest pass over its catalog; ``None`` if there is none."""
        which = PASS.catalog == table.catalog, PASS.catalog_id == table.catalog_id, PASS.planned_at.is_not(None)
        newest = sa.select(PASS.pass_id).where(*which).order_by(*NEWEST_FIRST.order()).limit(1).scalar_subquery()
        row = self.store.first(sa.select(fleet_entries).where(ENTRY.table_key == table.lock_key, ENTRY.pass_id == newest))
        return None if row is None else entry_from(row)


def _table_row(planned: PlannedTable, now: datetime) -> dict[str, Any]:
    return {
        "table_key": planned.table.lock_key,
        "catalog": planned.table.catalog,
        "catalog_id": planned.table.catalog_id,
        "metadata_location": planned.metadata_location,
        "planned_at": now,
        "policy": planned.policy,
        "needs_work": planned.needs_work,
        "reconsider_at": planned.reconsider_at,
        "passes_waited": planned.passes_waited,
        "held_since": planned.held_since,
    }
