"""Read and assess the tables of a catalog, several at a time. An unreadable table is a row with the reason."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.humanize import sentence, timestamp
from airflow_snowpack.iceberg import TableHealth, TableName, load_table, read_health
from airflow_snowpack.iceberg.catalog import unreadable_errors
from airflow_snowpack.iceberg.errors import CatalogUnreachable, TableUnreadable
from airflow_snowpack.iceberg.health import score
from airflow_snowpack.iceberg.locations import LOCATION_PROPERTIES, normalise
from airflow_snowpack.iceberg.table_properties import owner_properties
from airflow_snowpack.maintenance.action import Action
from airflow_snowpack.maintenance.actions.expire_snapshots import ExpireSnapshots
from airflow_snowpack.maintenance.assessment.model import Assessment, TableAssessment, ranked
from airflow_snowpack.maintenance.assessment.resume import ResumeFile
from airflow_snowpack.maintenance.planning import Cause, Estimate, TablePlan, plan_table
from airflow_snowpack.maintenance.policies import Policies, TablePolicy

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CONCURRENCY = 8
"""How many tables are read at a time by default."""
AHEAD = 2
"""How many tables are submitted ahead per thread, to bound memory."""
NO_LIMIT = 2**62
BLOCKING = (Cause.UNSUPPORTED, Cause.PROTECTED)


class Walk:
    """Assesses tables of one catalog.

    :param load_catalog: connects to the catalog; called once per thread.
    :param policies: decide what counts as small, what maintenance would do, and what is excluded.
    :param concurrency: how many tables are read at a time.
    :param old_snapshots: also read the manifests of expirable snapshots, for the bytes that expiry would free.
    """

    def __init__(
        self,
        load_catalog: Callable[[], Catalog],
        policies: Policies,
        clock: Callable[[], datetime],
        *,
        concurrency: int = CONCURRENCY,
        old_snapshots: bool = True,
    ) -> None:
        self._load_catalog = load_catalog
        self._policies = policies
        self._clock = clock
        self._concurrency = concurrency
        self._old_snapshots = old_snapshots
        self._of_thread = threading.local()

    def assess(
        self,
        catalog: str,
        tables: Sequence[TableName],
        *,
        progress: Callable[[int, str], None] = lambda _done, _table: None,
        resume: ResumeFile | None = None,
    ) -> Assessment:
        """Assess the tables.

        :param catalog: its name, for the report.
        :param progress: called in the calling thread after each table, with the number done and the table's name.
        :param resume: the results of earlier runs; those of this run are added.
        :raises CatalogUnreachable: the catalog stops answering; the resume file has what was read before.
        """
        rows, read = list[TableAssessment](), 0
        for row, was_read in self._rows(tables, resume):
            rows.append(row)
            read += was_read
            progress(len(rows), row.table)
        shared = shared_locations([row.health for row in rows if row.health is not None])
        with_shared = [replace(row, blockers=(*row.blockers, *shared.get(row.table, ()))) for row in rows]
        return Assessment(catalog, self._clock(), ranked(with_shared), read=read, old_snapshots=self._old_snapshots)

    def _rows(self, tables: Iterable[TableName], resume: ResumeFile | None) -> Iterator[tuple[TableAssessment, bool]]:
        """Yield each row as it is ready, with whether its table had to be read."""
        waiting: set[Future[tuple[TableAssessment, bool]]] = set()
        left = iter(tables)
        with ThreadPoolExecutor(self._concurrency, thread_name_prefix="snowpack-assess") as pool:
            try:
                while True:
                    room = self._concurrency * AHEAD - len(waiting)
                    waiting |= {pool.submit(self._assess, table, resume) for table in islice(left, room)}
                    if not waiting:
                        return
                    done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                    for each in done:
                        yield each.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _assess(self, name: TableName, resume: ResumeFile | None) -> tuple[TableAssessment, bool]:
        try:
            health, was_read = self._health(name, resume)
        except CatalogUnreachable:
            raise
        except SnowpackError as problem:
            return TableAssessment(name.dotted, problem=sentence(str(problem))), True
        policy = self._policies.of(name, health.properties)  # the properties that the health was read with
        try:
            return assess_health(health, policy, now=self._clock()), was_read
        except Exception as problem:  # noqa: BLE001 - metadata may contain anything; the other tables are assessed
            return TableAssessment(name.dotted, problem=f"It cannot be planned: {type(problem).__name__}: {problem}."), was_read

    def _health(self, name: TableName, resume: ResumeFile | None) -> tuple[TableHealth, bool]:
        table = load_table(self._catalog(), name)
        policy = self._policies.of(name, owner_properties(table))
        try:
            expired = _expired(table, policy, self._clock()) if self._old_snapshots else None
        except ValueError as error:
            raise TableUnreadable(name.dotted, error) from error
        number = len(expired or ())
        kept = resume.health_of(name.dotted, table.metadata_location, policy.bounds, expired=number) if resume else None
        if kept is not None:
            return kept, False
        try:
            health = read_health(table, now=self._clock(), bounds=policy.bounds, expired=expired)
        except unreadable_errors() as error:
            raise TableUnreadable(name.dotted, error) from error
        if resume is not None:
            resume.keep(name.dotted, health, expired=number)
        return health, True

    def _catalog(self) -> Catalog:
        found: Catalog | None = getattr(self._of_thread, "catalog", None)
        if found is None:
            found = self._of_thread.catalog = self._load_catalog()
        return found


def _expired(table: Table, policy: TablePolicy, now: datetime) -> tuple[int, ...] | None:
    """Return the snapshots that would expire by the policy; ``None`` if there are none."""
    options = policy.actions[Action.EXPIRE_SNAPSHOTS].options
    assert isinstance(options, ExpireSnapshots)
    if Action.EXPIRE_SNAPSHOTS in policy.forbidden:
        return None
    return tuple(snapshot.snapshot_id for snapshot in options.expiry(table.metadata, now).snapshots) or None


def assess_health(health: TableHealth, policy: TablePolicy, *, now: datetime) -> TableAssessment:
    """Return the row of a table.

    To show all that maintenance would do, the plan ignores the policy's exclusion, freeze, quiet windows and byte limit, and
    active writers. An exclusion and a freeze are blockers.

    :param health: read with ``policy.bounds``.
    """
    unhindered = replace(policy, skip=None, frozen_until=None, quiet=(), max_rewrite_bytes=NO_LIMIT)
    plan = plan_table(_without_recent_writes(health), unhindered, now=now)
    found = score(health)
    needs = tuple(each for each in plan.decisions if each.runs and plan.findings[each.action].work != Estimate())
    return TableAssessment(
        table=policy.table.dotted,
        metadata_location=health.metadata_location,
        health=health,
        score=found.total,
        parts=found.parts,
        needs=needs,
        blockers=tuple(_blockers(health, policy, plan, now)),
    )


def _without_recent_writes(health: TableHealth) -> TableHealth:
    """Return the health without recent writes, because plans skip partitions that are being written to."""
    return replace(health, partitions=tuple(replace(each, newest_at=None) for each in health.partitions))


def _blockers(health: TableHealth, policy: TablePolicy, plan: TablePlan, now: datetime) -> Iterator[str]:
    if policy.skip is not None and str(policy.origin("skip")) not in {f"table property {each.name}" for each in policy.problems}:
        yield f"Excluded from maintenance: {policy.skip}"
    if policy.frozen_until is not None and policy.frozen_until > now:
        yield f"Frozen until {timestamp(policy.frozen_until)}"
    for each in plan.decisions:
        if not each.runs and each.cause in BLOCKING and not any(problem.name in each.evidence for problem in policy.problems):
            yield f"{each.action}: {each.evidence}"
    for problem in policy.problems:
        yield problem.message.removesuffix(".")


def shared_locations(found: Sequence[TableHealth]) -> dict[str, tuple[str, ...]]:
    """Return which tables share their location, where the removal of orphan files is refused.

    :return: by table, sentences without a full stop; tables that share nothing are left out.
    """
    owners: dict[str, set[str]] = defaultdict(set)
    for health in found:
        for place in _places(health):
            owners[place].add(health.table)
    conflicts: dict[str, dict[str, str]] = defaultdict(dict)
    for health in found:
        for place in _places(health):
            for around in _around(place):
                for other in owners.get(around, set()) - {health.table}:
                    same = around == place
                    conflicts[health.table][other] = "has the same location" if same else "lies around it"
                    conflicts[other].setdefault(health.table, "has the same location" if same else "lies inside it")
    return {table: tuple(_sentences(others)) for table, others in conflicts.items()}


def _places(health: TableHealth) -> Iterable[str]:
    elsewhere = (health.properties.get(key) for key in LOCATION_PROPERTIES)
    return {normalise(place) for place in (health.location, *elsewhere) if place}


def _around(place: str) -> Iterator[str]:
    """Yield a location and its parent folders."""
    scheme, separator, rest = place.rpartition("://")
    parts = rest.split("/")
    for length in range(len(parts), 0, -1):
        yield scheme + separator + "/".join(parts[:length])


def _sentences(others: dict[str, str]) -> Iterator[str]:
    for relation in sorted(set(others.values())):
        names = sorted(name for name, found in others.items() if found == relation)
        shown = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        yield f"remove_orphan_files is refused: {shown} {relation}"
