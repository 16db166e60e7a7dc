"""The sources of a schedule: the tables, DAGs and assets that its trigger listens to, when they were read, and their problems.

    record_problems(store, {key: SourceProblem.found(ProblemKind.MISSING, now)}, read_problems(conn, [key]))
    judged = with_problems(trigger, judgement, blocking(schedule, read_problems(conn, keys), catalog))
    findings = check_sources(declared, catalog_name="lake", load_catalog=load, missing_dags={"gone"}, now=now)

The poller and the scheduler record problems. The invariant: a source without a row has no problem, or has not been read yet, and
a trigger has a problem only if no event can satisfy it as things are. One part with a problem is enough for an ``all_of``; an
``any_of`` has one when all of its parts do, and an ``at_latest`` never does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import sqlalchemy as sa

from airflow_snowpack.entry_points import entry_points
from airflow_snowpack.errors import SnowpackError, error_text
from airflow_snowpack.iceberg.catalog import load_table
from airflow_snowpack.iceberg.errors import TableNotFound
from airflow_snowpack.iceberg.names import TableName
from airflow_snowpack.scheduling.schedule import Schedule
from airflow_snowpack.scheduling.triggers.trigger import (
    ALL_CHANGES,
    TABLES,
    Judgement,
    Leaf,
    SourceName,
    Trigger,
    asset_key,
    table_key,
)
from airflow_snowpack.store import Store, storable_error
from airflow_snowpack.store.dialect import row_mapper, upsert
from airflow_snowpack.store.signs_of_life import Role, is_alive, last_seen
from airflow_snowpack.store.tables.schedules import schedule_triggers, schedules, source_problems, table_places
from airflow_snowpack.timed_calls import TimedCalls

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table


GROUP = "airflow_snowpack.trigger_sources"
"""The entry points of the sources of other distributions, each named after its kind."""
OWN = frozenset({"asset", "clock", "dag", "event", "run", "table"})
"""What the keys of the package's own events and sources begin with. An entry point cannot replace them."""
WRITE_EVERY = timedelta(minutes=1)
"""How often a problem that lasts is confirmed in the store."""
KEYS_PER_STATEMENT = 500
READ_LIMIT = timedelta(seconds=30)
"""How long :func:`check_sources` waits for one table."""


class ProblemKind(StrEnum):
    """What is wrong with a source: it does not exist, it cannot be read, or it has no partitions."""

    MISSING = "missing"
    UNREADABLE = "unreadable"
    UNPARTITIONED = "unpartitioned"


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """What is wrong with a source.

    :param problem: the error, for people; empty where the kind is enough.
    :param began_at: when it was first found, and ``confirmed_at``: when it was last confirmed.
    """

    kind: ProblemKind
    problem: str
    began_at: datetime
    confirmed_at: datetime

    @classmethod
    def found(cls, kind: ProblemKind, now: datetime, problem: str = "") -> Self:
        """Return a problem that was just found."""
        return cls(kind, problem, now, now)


def found_in(table: Table, now: datetime) -> SourceProblem | None:
    """Return what is wrong with a table that could be read."""
    return SourceProblem.found(ProblemKind.UNPARTITIONED, now) if table.spec().is_unpartitioned() else None


def found_with(error: Exception, now: datetime) -> SourceProblem:
    """Return the problem of a table from the error of reading it."""
    if isinstance(error, TableNotFound):
        return SourceProblem.found(ProblemKind.MISSING, now, str(error))
    if isinstance(error, SnowpackError):
        return SourceProblem.found(ProblemKind.UNREADABLE, now, storable_error(str(error)))
    first_line = (error_text(error).splitlines() or [""])[0]  # drivers add the statement and a link below
    return SourceProblem.found(ProblemKind.UNREADABLE, now, storable_error(f"{type(error).__name__}: {first_line}")[:320])


def is_news(found: SourceProblem | None, known: SourceProblem | None) -> bool:
    """Return whether a finding differs from the record, or the record needs a new time."""
    if found is None or known is None:
        return (found is None) != (known is None)
    if (found.kind, found.problem) != (known.kind, known.problem):
        return True
    return found.kind is not ProblemKind.UNPARTITIONED and found.confirmed_at - known.confirmed_at >= WRITE_EVERY


def write_problem(conn: sa.Connection, key: str, found: SourceProblem | None, known: SourceProblem | None) -> None:
    """Record the state of a source, if it is news.

    :param key: the key of its events for a table, :func:`dag_source` for a DAG.
    :param found: what is wrong; ``None`` when nothing is.
    :param known: the record.
    """
    if not is_news(found, known):
        return
    if found is None:
        conn.execute(sa.delete(source_problems).where(source_problems.c.key == key))
        return
    began_at = known.began_at if known is not None and known.kind is found.kind else found.began_at
    values = {"kind": found.kind.value, "problem": found.problem, "began_at": began_at, "confirmed_at": found.confirmed_at}
    conn.execute(upsert(source_problems, values).values(key=key, **values))


def record_problems(store: Store, found: Mapping[str, SourceProblem | None], known: Mapping[str, SourceProblem | None]) -> None:
    """Record the states of several sources in one transaction, as :func:`write_problem` does; none if nothing is news."""

    def write(conn: sa.Connection) -> None:
        for key, each in found.items():
            write_problem(conn, key, each, known.get(key))

    if any(is_news(each, known.get(key)) for key, each in found.items()):
        store.transact(write)


def read_problems(conn: sa.Connection, keys: Iterable[str]) -> dict[str, SourceProblem]:
    """Return the recorded problems, by the key of the source."""
    wanted, found = sorted(set(keys)), {}
    for start in range(0, len(wanted), KEYS_PER_STATEMENT):
        query = sa.select(source_problems).where(source_problems.c.key.in_(wanted[start : start + KEYS_PER_STATEMENT]))
        found.update({row.key: _problem_from(row) for row in conn.execute(query)})
    return found


_problem_from = row_mapper(SourceProblem, {"kind": ProblemKind})


def added_sources() -> dict[str, EntryPoint]:
    """Return the entry points of the sources of other distributions by kind."""
    return {kind: point for kind, point in entry_points(GROUP).items() if kind not in OWN}


def listened_to(schedule: Schedule, catalog: str) -> dict[Leaf, tuple[str, SourceName]]:
    """Return what the leaves of a schedule's trigger listen to, with the key of its problems in the store.

    A source that another distribution reads is known to the poller by the key of its events alone.
    """
    found, added = {}, added_sources()
    for number, leaf in enumerate(schedule.trigger.leaves()):
        key = leaf.event_key(catalog, schedule.name, number)
        kind, _, name = key.partition(":")
        if kind in added:
            found[leaf] = key, leaf.source or SourceName(kind, name)
        elif leaf.source is not None:
            found[leaf] = leaf.source.key(catalog), leaf.source
    return found


def source_keys(schedules: Iterable[Schedule], catalog: str) -> set[str]:
    """Return the keys of the problems of what schedules listen to."""
    return {key for schedule in schedules for key, _ in listened_to(schedule, catalog).values()}


def uninstalled(keys: Iterable[str], now: datetime) -> dict[str, SourceProblem]:
    """Return the problem of each source that no installed distribution reads, by its key.

    :param keys: from :func:`source_keys`.
    """
    problem = SourceProblem.found(ProblemKind.UNREADABLE, now, f"no installed package has an entry point of {GROUP} for it")
    return {key: problem for key in keys if key.partition(":")[0] not in OWN | added_sources().keys()}


def dag_source(dag_id: str) -> str:
    """The key of a DAG among the sources."""
    return f"dag:{dag_id}"


@dataclass(frozen=True, slots=True)
class TriggerSource:
    """What a schedule listens to.

    :param kind: ``table``, ``dag``, ``asset``, or that of a :class:`.PolledSource`.
    :param read_at: when the table was last read; ``None`` for never, and for anything else.
    :param problem: what is wrong with it, for people, and ``confirmed_at``: when that was last confirmed.
    """

    kind: str
    name: str
    read_at: datetime | None = None
    problem: str | None = None
    confirmed_at: datetime | None = None


def tables_of(trigger: Trigger, catalog_name: str) -> list[TableName]:
    """Return the tables that a trigger listens to, in the order of their names."""
    sources = (source for leaf in trigger.leaves() if (source := leaf.source) is not None and source.kind == "table")
    return sorted({TableName.parse(source.name, catalog=catalog_name) for source in sources}, key=str)


def problem_of(leaf: Leaf, source: SourceName, problem: SourceProblem) -> str | None:
    """Return what a problem of its source means for a leaf; ``None`` for nothing."""
    named = f"the {'DAG' if source.kind == 'dag' else source.kind} {source.name}"
    match problem.kind:
        case ProblemKind.MISSING if source.kind == "asset":
            return f"{named} is unknown to Airflow: no DAG has it as an inlet, an outlet or its schedule"
        case ProblemKind.MISSING:
            return f"{named} does not exist"
        case ProblemKind.UNREADABLE:
            return f"{named} cannot be read: {problem.problem.rstrip('.')}"
        case ProblemKind.UNPARTITIONED if leaf.measure == "partitions":
            return f"{named} is not partitioned, so all of its data counts as one partition"
    return None


def blocking(schedule: Schedule, problems: Mapping[str, SourceProblem], catalog: str) -> dict[Trigger, str]:
    """Return why leaves of a schedule's trigger cannot be satisfied as things are."""
    found: dict[Trigger, str] = {}
    for leaf, (key, source) in listened_to(schedule, catalog).items():
        problem = problems.get(key)
        if problem is None or (problem.kind is ProblemKind.UNPARTITIONED and leaf.wanted <= 1):
            continue
        if (text := problem_of(leaf, source, problem)) is not None:
            found[leaf] = text
    return found


def with_problems(trigger: Trigger, judgement: Judgement, blocked: Mapping[Trigger, str]) -> Judgement:
    """Add to a judgement, and to those that it is made of, why it cannot be satisfied as things are."""
    if judgement.satisfied or not blocked:
        return judgement
    if not (children := trigger.children()):
        return judgement._replace(problem=blocked.get(trigger))
    parts = tuple(with_problems(child, part, blocked) for child, part in zip(children, judgement.parts, strict=True))
    problems = [part.problem for part in parts if part.problem is not None]
    is_blocked = bool(problems) and (trigger.needs_all or len(problems) == len(parts))
    return judgement._replace(parts=parts, problem="; ".join(dict.fromkeys(problems)) if is_blocked else None)


def sources_of(
    schedule: Schedule, problems: Mapping[str, SourceProblem], read_at: Mapping[str, datetime], catalog: str
) -> tuple[TriggerSource, ...]:
    """Return the sources of a schedule's trigger, each once, in the order of its leaves.

    :param problems: by the key of the source, and ``read_at``: when each table was last read.
    """
    found: dict[str, TriggerSource] = {}
    for leaf, (key, source) in listened_to(schedule, catalog).items():
        listed = source.key(catalog)
        if listed in found and found[listed].problem is not None:
            continue
        problem = problems.get(key)
        text = None if problem is None else problem_of(leaf, source, problem)
        confirmed_at = None if problem is None or text is None else problem.confirmed_at
        found[listed] = TriggerSource(source.kind, source.name, read_at.get(key), text, confirmed_at)
    return tuple(found.values())


def read_table_lag(store: Store) -> timedelta:
    """Return how long the most overdue table has been due; zero while all are read in time.

    The cost follows the polled tables, not the schedules. A table that does not exist, or was never read, is left out.
    """
    key = TABLES + table_places.c.table_key
    is_missing = sa.and_(source_problems.c.key == key, source_problems.c.kind == ProblemKind.MISSING.value)
    query = sa.select(sa.func.min(table_places.c.look_at)).where(
        sa.exists().where(schedule_triggers.c.event_key.in_([key, key + ALL_CHANGES])), ~sa.exists().where(is_missing)
    )
    oldest = store.scalar(query)
    return timedelta(0) if oldest is None else max(timedelta(0), store.clock() - oldest)


def read_unreadable(store: Store) -> dict[str, str]:
    """Return why sources that enabled schedules listen to cannot be read.

    :returns: by ``catalog.database.table``, or the key of a source of another distribution.
    """
    query = sa.select(source_problems.c.key, source_problems.c.problem).where(
        source_problems.c.kind == ProblemKind.UNREADABLE.value,
        sa.exists().where(schedule_triggers.c.event_key.in_([source_problems.c.key, source_problems.c.key + ALL_CHANGES])),
    )
    return {row.key.removeprefix(TABLES): row.problem for row in store.all(query.order_by(source_problems.c.key))}


@dataclass(frozen=True, slots=True)
class SourceFinding:
    """Something that keeps a schedule from starting its DAG, or may.

    :param schedule: its name; ``None`` where all schedules are concerned.
    :param blocks: its trigger cannot be satisfied, or its DAG cannot be started, as things are.
    """

    schedule: str | None
    problem: str
    blocks: bool

    def __str__(self) -> str:
        if self.schedule is None:
            return f"{self.problem[:1].upper()}{self.problem[1:]}."
        return f"{self.schedule}: {self.problem}{'; it cannot run as things are' if self.blocks else ''}."


def check_sources(
    declared: Iterable[Schedule],
    *,
    catalog_name: str,
    load_catalog: Callable[[], Catalog],
    missing_dags: Collection[str],
    missing_assets: Collection[str] = (),
    unreadable: Mapping[str, str] | None = None,
    now: datetime,
) -> list[SourceFinding]:
    """Return what is wrong with the sources of these schedules, in the order of their names.

    :param load_catalog: connects to the catalog; called when there are tables to read.
    :param missing_dags: DAGs that do not exist, and ``missing_assets``: the URIs of assets that Airflow does not have.
    :param unreadable: from :func:`read_unreadable`. Of sources of other distributions, only the poller knows that.
    :raises CatalogUnreachable: from ``load_catalog``. A single table that cannot be read in time is a finding.
    """
    wanted = sorted(declared, key=lambda one: one.name)
    missing = SourceProblem.found(ProblemKind.MISSING, now)
    problems = dict.fromkeys([*map(dag_source, missing_dags), *map(asset_key, missing_assets)], missing)
    keys = source_keys(wanted, catalog_name)
    known = ((key, why) for key, why in (unreadable or {}).items() if key in keys)
    problems |= {key: SourceProblem.found(ProblemKind.UNREADABLE, now, why) for key, why in known} | uninstalled(keys, now)
    names = sorted({name for one in wanted for name in tables_of(one.trigger, catalog_name)}, key=str)
    reads = TimedCalls[TableName, SourceProblem | None](lambda name: f"The storage of {name.dotted}", limit=READ_LIMIT)
    catalog = load_catalog() if names else None
    for name, result in reads.run({name: partial(_read, catalog, name, now) for name in names}):
        found = found_with(result, now) if isinstance(result, Exception) else result
        if found is not None:
            problems[table_key(name)] = found
    findings: list[SourceFinding] = []
    for one in wanted:
        blocked = with_problems(one.trigger, one.trigger.evaluate({}, now), blocking(one, problems, catalog_name))
        for source in sources_of(one, problems, {}, catalog_name):
            if source.problem is not None:
                findings.append(SourceFinding(one.name, source.problem, blocked.problem is not None))
        if one.dag_id in missing_dags:
            findings.append(SourceFinding(one.name, f"the DAG {one.dag_id}, which it starts, does not exist", True))
    return findings


def check_scheduler(store: Store) -> list[SourceFinding]:
    """Return a finding when schedules are enabled and no scheduler is running."""
    enabled = sa.select(schedules.c.name).where(schedules.c.enabled).limit(1)
    is_wanted, seen_at = store.read(lambda conn: (conn.execute(enabled).first() is not None, last_seen(conn, Role.SCHEDULER)))
    if not is_wanted or is_alive(seen_at, store.clock()):
        return []
    return [
        SourceFinding(
            None, "no scheduler is running; unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`", True
        )
    ]


def named_dags(declared: Collection[Schedule]) -> set[str]:
    """Return the DAGs that schedules start or listen to."""
    started = {one.dag_id for one in declared}
    return started | _named(declared, "dag")


def named_assets(declared: Iterable[Schedule]) -> set[str]:
    """Return the URIs of the assets that schedules listen to."""
    return _named(declared, "asset")


def _named(declared: Iterable[Schedule], kind: str) -> set[str]:
    sources = (leaf.source for one in declared for leaf in one.trigger.leaves())
    return {source.name for source in sources if source is not None and source.kind == kind}


def _read(catalog: Any, name: TableName, now: datetime) -> SourceProblem | None:
    return found_in(load_table(catalog, name), now)
