"""Finds what people have to know now, in eight statements, whatever the number of tables, jobs and schedules.

    for cause in find_causes(store, policies):
        print(cause.owner, cause.sentence)

Failed jobs and unreadable tables with the same error, and schedules that wait for the same process, are one cause for each owner:
an outage is one message. A sentence has an error without its quoted names, addresses, paths and numbers, which may be secrets or
their places; the page at ``path`` has the rest.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.humanize import duration, join, one_unit, plural, size, timestamp
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.iceberg.table_properties import OWNER
from airflow_snowpack.inventory.condition import SICK_BELOW
from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.maintenance.fleet.budget import Budget
from airflow_snowpack.maintenance.fleet.model import EntryState
from airflow_snowpack.maintenance.fleet.report import MAX_NAMED, cause_of
from airflow_snowpack.maintenance.policies import Policies
from airflow_snowpack.maintenance.removals.model import VALID_FOR, RemovalState
from airflow_snowpack.scheduling.pending_runs.model import PendingState
from airflow_snowpack.store import Store
from airflow_snowpack.store.tables.fleet import fleet_entries, fleet_passes
from airflow_snowpack.store.tables.health import table_health
from airflow_snowpack.store.tables.jobs import inventory_refreshes, inventory_tables, jobs
from airflow_snowpack.store.tables.removals import removals
from airflow_snowpack.store.tables.schedules import launches, pending_jobs, schedule_clocks

FAILED_WITHIN = timedelta(days=8)
"""How long a failed job counts: weekly maintenance that always fails is one cause."""
TIMED_OUT_WITHIN = timedelta(days=1)
LISTED_WITHIN = timedelta(days=1)
"""Tables that an older list of the catalog lacks are not known to be gone."""
LATE = timedelta(minutes=15)
"""How late a tick or a start of a schedule may be."""
MOST_FAILURES = 10_000
UNNAMED = "_"
"""Stored health has the id of its catalog, and not the name; as short as a name can be, so that each name of a table fits."""
ENDS_LATER = 1.1
"""The last jobs of a pass end a little after its time."""


class CauseKind(StrEnum):
    """What a cause is about."""

    FAILURE = "failure"
    UNREADABLE = "unreadable"
    HEALTH = "health"
    DEADLINE = "deadline"
    SCHEDULE = "schedule"
    REMOVAL = "removal"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class NotificationCause:
    """Something that is wrong, or waits for a person.

    :param subject: distinguishes the causes of a kind, such as the key of a table; the same as long as the cause lasts.
    :param owner: empty for none.
    :param sentence: without secrets and paths.
    :param path: the page about it, below ``/ui``.
    :param opens: ``False`` if it only continues a cause that is open: a pass maintains the table now.
    """

    kind: CauseKind
    subject: str
    owner: str
    sentence: str
    path: str
    opens: bool = True

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.kind} {self.subject}".encode()).hexdigest()[:32]


J, H, E, P, R = jobs.c, table_health.c, fleet_entries.c, fleet_passes.c, removals.c
later = jobs.alias("later").c
JOB_TABLE = sa.case((J.catalog_id == "", J.table_key), else_=J.catalog_id + ":" + J.database_name + "." + J.table_name)
"""The lock key of a job's table, as the other tables have it."""


def _is_gone(catalog: sa.ColumnElement[str], dotted: sa.ColumnElement[str], listed_after: datetime) -> sa.ColumnElement[bool]:
    """Whether a recent list of the catalog lacks the table; ``catalog`` is its id, or its name if it has no id."""
    listing, listed = inventory_refreshes.alias().c, inventory_tables.alias().c
    same = sa.or_(listing.catalog == catalog, listing.catalog.like(sa.literal("%@") + catalog))
    recent = sa.and_(same, listing.refreshed_at > listed_after)
    there = sa.exists().where(recent, listed.table_key == listing.catalog + "." + dotted)
    return sa.and_(sa.exists().where(recent), ~there)


def _newest(*which: sa.ColumnElement[bool]) -> sa.Subquery:
    """Select the id of the newest pass over each catalog."""
    rank = sa.func.row_number().over(partition_by=(P.catalog, P.catalog_id), order_by=(P.started_at.desc(), P.pass_id.desc()))
    ranked = sa.select(P.pass_id, rank.label("rank")).where(*which).subquery()
    return sa.select(ranked.c.pass_id).where(ranked.c.rank == 1).subquery()


def find_causes(store: Store, policies: Policies | None = None, *, score_below: int = SICK_BELOW) -> list[NotificationCause]:
    """Return what people have to know now.

    :param policies: name owners of tables; ``None`` if they cannot be read. Then only the table property ``owner`` counts.
    :param score_below: tables with a lower score are reported.
    """
    world = _World(store, policies, score_below)
    of_tables = (*world.failures(), *world.health(), *world.deadlines(), *world.removals())
    return [*of_tables, *world.budgets(), *world.late_ticks(), *world.late_starts(), *world.timeouts()]


class _World:
    """The store at one time."""

    def __init__(self, store: Store, policies: Policies | None, score_below: int) -> None:
        self._all = store.all
        self._now = store.clock()
        self._policies = policies or Policies()
        self._score_below = score_below

    def failures(self) -> Iterator[NotificationCause]:
        """The newest ended job of a table has failed."""
        ended = later.status.in_([JobStatus.COMPLETED.value, JobStatus.FAILED.value])
        of_table = sa.and_(later.table_key == J.table_key, later.catalog_id == J.catalog_id, later.deleted_at.is_(None))
        newest = sa.select(later.job_id).where(of_table, ~later.dry_run, ended).limit(1)  # a look-up for each failed job
        newest = newest.order_by(later.submitted_at.desc(), later.job_id.desc())
        failed = sa.and_(J.deleted_at.is_(None), J.error.is_not(None), ~J.dry_run, J.status == JobStatus.FAILED.value)
        catalog = sa.case((J.catalog_id == "", J.catalog), else_=J.catalog_id)
        gone = _is_gone(catalog, J.database_name + "." + J.table_name, self._now - LISTED_WITHIN)
        query = (
            sa.select(J.job_id, J.catalog, J.catalog_id, J.database_name, J.table_name, J.error, H.owner)
            .outerjoin_from(jobs, table_health, H.table_key == JOB_TABLE)
            .where(failed, J.submitted_at > self._now - FAILED_WITHIN, J.job_id == newest.scalar_subquery(), ~gone)
            .order_by(J.submitted_at.desc(), J.job_id.desc())
            .limit(MOST_FAILURES)
        )
        found = [(table := _table(row), row.owner, cause_of(row.error, table), f"/jobs/{row.job_id}") for row in self._all(query)]
        return self._grouped(CauseKind.FAILURE, "failed", found)

    def health(self) -> Iterator[NotificationCause]:
        """The score of a table is too low, or its metadata cannot be read."""
        gone = _is_gone(H.catalog, H.table_name, self._now - LISTED_WITHIN)
        wrong = sa.or_(H.score < self._score_below, H.problem.is_not(None))
        query = sa.select(H.table_key, H.catalog, H.table_name, H.score, H.problem, H.owner).where(wrong, ~gone)
        unreadable = []
        for row in self._all(query.order_by(H.table_key)):
            table = TableName.parse(row.table_name, catalog=UNNAMED)
            if row.problem is not None:
                unreadable.append((table, row.owner, cause_of(row.problem, table), _page(table)))
                continue
            owner, text = self._owner(table, row.owner), f"{table.dotted} has a score of {row.score}, below {self._score_below}."
            yield NotificationCause(CauseKind.HEALTH, row.table_key, owner, text, _page(table))
        yield from self._grouped(CauseKind.UNREADABLE, "cannot be read", unreadable)

    def deadlines(self) -> Iterator[NotificationCause]:
        """The newest pass over a catalog has not maintained a table whose deadline has passed."""
        newest = _newest(P.planned_at.is_not(None))
        done = [EntryState.MAINTAINED.value, EntryState.GONE.value]
        query = (
            sa.select(E.table_key, E.catalog, E.catalog_id, E.database_name, E.table_name, E.state, E.deadline, H.owner)
            .join_from(fleet_entries, newest, newest.c.pass_id == E.pass_id)
            .outerjoin(table_health, H.table_key == E.table_key)
            .where(E.deadline <= self._now, E.state.not_in(done))
            .order_by(E.deadline, E.table_key)
        )
        for row in self._all(query):
            table, state = _table(row), EntryState(row.state)
            why = "its job has failed" if state is EntryState.FAILED else "it waits for the next pass"
            text = f"{table.dotted} has missed its deadline, {timestamp(row.deadline)}: {why}."
            yield NotificationCause(
                CauseKind.DEADLINE, row.table_key, self._owner(table, row.owner), text, _page(table), opens=state.is_final
            )

    def removals(self) -> Iterator[NotificationCause]:
        """A removal waits for an approval."""
        valid = R.planned_at > self._now - VALID_FOR, R.expires_at > self._now  # the index has the time of the plan
        named = (R.removal_id, R.catalog, R.catalog_id, R.database_name, R.table_name)
        query = sa.select(*named, R.kind, R.item_count, R.bytes, R.expires_at, H.owner)
        query = query.outerjoin_from(removals, table_health, H.table_key == R.table_key).where(
            R.state == RemovalState.AWAITING_APPROVAL.value, *valid
        )
        for row in self._all(query.order_by(R.planned_at, R.removal_id)):
            table, what = _table(row), "snapshot" if row.kind == "snapshots" else "orphan file"
            amount = plural(row.item_count, what) + ("" if row.bytes is None else f" ({size(row.bytes)})")
            text = f"{table.dotted}: the removal of {amount} waits for an approval until {timestamp(row.expires_at)}."
            owner = self._owner(table, row.owner)
            yield NotificationCause(CauseKind.REMOVAL, row.removal_id, owner, text, f"/removals/{row.removal_id}")

    def budgets(self) -> Iterator[NotificationCause]:
        """The last ended pass over a catalog used more than its budget, or some tables did not fit it."""
        newest = _newest(P.ended_at.is_not(None), P.planned_at.is_not(None))
        left = sa.and_(
            E.pass_id == P.pass_id, E.state == EntryState.WAITING.value, E.plan.is_not(None), E.ended_at <= P.planned_at
        )
        number = sa.select(sa.func.count()).select_from(fleet_entries).where(left).scalar_subquery().label("left_out")
        query = sa.select(P.catalog, P.catalog_id, P.budget, P.report, number)
        for row in self._all(query.join_from(fleet_passes, newest, newest.c.pass_id == P.pass_id)):
            parts = [*_overspent(Budget.from_json(row.budget), row.report or {})]
            parts += [f"{plural(row.left_out, 'table')} did not fit"] if row.left_out else []
            if parts:
                text = f"The last pass over {row.catalog} is over its budget: {join(parts)}."
                yield NotificationCause(CauseKind.BUDGET, f"{row.catalog}@{row.catalog_id}", "", text, "/")

    def late_ticks(self) -> Iterator[NotificationCause]:
        """The time of a schedule has passed, and no scheduler has noticed."""
        c = schedule_clocks.c
        query = sa.select(c.schedule).where(c.look_at < self._now - LATE).group_by(c.schedule)
        late = [row.schedule for row in self._all(query.order_by(sa.func.min(c.look_at), c.schedule))]
        if late:
            text = f"No scheduler evaluates {plural(len(late), 'due schedule')}: {_few(late)}."
            yield NotificationCause(CauseKind.SCHEDULE, "ticks", "", text, "/schedules")

    def late_starts(self) -> Iterator[NotificationCause]:
        """A run is due, and was not started."""
        c = launches.c
        query = sa.select(c.schedule, c.problem, c.enqueued_at).where(c.enqueued_at < self._now - LATE)
        groups: defaultdict[str, list[Any]] = defaultdict(list)
        for row in self._all(query.order_by(c.enqueued_at, c.pending_id)):
            groups["" if row.problem is None else cause_of(row.problem, TableName("a", "a", row.schedule))].append(row)
        for problem, rows in groups.items():
            names = [*dict.fromkeys(row.schedule for row in rows)]
            since = one_unit(self._now - rows[0].enqueued_at)
            waited = f"Not started for {since}: {plural(len(rows), 'run')} of {_few(names)}"
            text = f"{waited}: {problem.removesuffix('.') or 'no launcher has started them'}."
            yield NotificationCause(CauseKind.SCHEDULE, f"starts {problem}", "", text, "/pending")

    def timeouts(self) -> Iterator[NotificationCause]:
        """The newest ended run of a schedule was discarded after its timeout."""
        c, next_one = pending_jobs.c, pending_jobs.alias().c
        came = sa.exists().where(next_one.schedule == c.schedule, next_one.ended_at > c.ended_at)
        timed_out = sa.and_(c.state == PendingState.DISCARDED.value, c.ended_because.startswith("its constraints were not met"))
        query = sa.select(c.schedule, c.dag_id).where(c.ended_at > self._now - TIMED_OUT_WITHIN, timed_out, ~came)
        for row in sorted(self._all(query)):  # an order in the statement would walk over all runs
            text = f"{row.schedule}: a run of {row.dag_id} was discarded, because its constraints were not met in time."
            yield NotificationCause(CauseKind.SCHEDULE, f"timeout {row.schedule}", "", text, f"/schedules/{row.schedule}")

    def _grouped(
        self, kind: CauseKind, what: str, found: Iterable[tuple[TableName, Mapping[str, str] | None, str, str]]
    ) -> Iterator[NotificationCause]:
        """Yield a cause for each owner and error; the newest member gives the page."""
        groups: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
        for table, properties, error, path in found:
            groups[self._owner(table, properties), error].setdefault(table.dotted, path)
        for (owner, error), paths in groups.items():
            text = (
                f"{plural(len(paths), 'table')} {what}: {_few([*paths])}: {error.removesuffix('.') or 'no error was recorded'}."
            )
            yield NotificationCause(kind, f"{owner}\n{error}", owner, text, next(iter(paths.values())))

    def _owner(self, table: TableName, properties: Mapping[str, str] | None) -> str:
        given = properties or {}
        return self._policies.of(table, given).owner or given.get(OWNER, "")


def _table(row: Any) -> TableName:
    return TableName(row.catalog, row.database_name, row.table_name, row.catalog_id)


def _page(table: TableName) -> str:
    return f"/tables/{table.database}/{table.table}"


def _few(names: list[str]) -> str:
    more = len(names) - MAX_NAMED
    return join([*names[:MAX_NAMED], f"{more} more"] if more > 0 else names)


def _overspent(budget: Budget, report: Mapping[str, Any]) -> Iterator[str]:
    """Yield each limit of the budget that the pass exceeded, with what it used."""
    spent = report.get("spent", {})
    if budget.gb_hours is not None and (used := spent.get("gb_hours", 0)) > budget.gb_hours:
        yield f"{used:.1f} GB·h of {budget.gb_hours:g} GB·h used"
    if budget.bytes is not None and (used := spent.get("bytes", 0)) > budget.bytes:
        yield f"{size(used)} of {size(budget.bytes)} rewritten"
    if budget.time is not None and (took := report.get("seconds", 0)) > ENDS_LATER * budget.time.total_seconds():
        yield f"{duration(took)} of {duration(budget.time)} used"
