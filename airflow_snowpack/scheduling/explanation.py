"""Explains why a schedule has not run: its trigger's progress, what each constraint waits for, and its last launches.

    print(explain(schedules, "page_views_nightly"))

It reads the current store, including events that no check has counted yet, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.humanize import Text, plural
from airflow_snowpack.scheduling.airflow_port import paused_problem
from airflow_snowpack.scheduling.events.counting import count_events
from airflow_snowpack.scheduling.launches.active_runs import runs_that_count
from airflow_snowpack.scheduling.pending_runs.gated_runs import GatedRun, waiting_at_gates
from airflow_snowpack.scheduling.pending_runs.model import OPEN, PendingRun, PendingState, Reason, pending_from
from airflow_snowpack.scheduling.schedule import Then
from airflow_snowpack.scheduling.schedules import ScheduleOrigin, Schedules, StoredSchedule
from airflow_snowpack.scheduling.sources.source import (
    KEYS_PER_STATEMENT,
    SourceProblem,
    TriggerSource,
    blocking,
    dag_source,
    read_problems,
    source_keys,
    sources_of,
    uninstalled,
    with_problems,
)
from airflow_snowpack.scheduling.triggers.trigger import TABLES, Judgement
from airflow_snowpack.store.signs_of_life import Role, is_alive, last_seen
from airflow_snowpack.store.tables.schedules import launches, pending_events, pending_jobs, schedule_clocks, table_places

START_SCHEDULER = "Unpause the DAG snowpack_dispatcher, or run `airflow snowpack scheduler`."
FIND_PROBLEM = Text("To find the problem: `airflow snowpack doctor`.")
FIND_IMPORT_ERRORS = Text("To see which DAG files cannot be read: `airflow dags list-import-errors`.")
LAST = 5
"""How many of the newest ended runs an explanation has."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The state of a schedule, and why it has not run.

    :param pending: the pending run that waits for its trigger or its constraints, if any.
    :param launching: the pending run whose DAG run is starting; ``problem``: why the last attempt failed.
    :param start_at: when it is started next; ``events``: how many it has.
    :param holders: the runs, as DAG and run id, in the places that the pending run waits for, according to the store.
    :param deadline: when it runs at the latest, for a trigger with ``at_latest``.
    :param sources: the tables and DAGs that an enabled schedule listens to, when each table was last read, and their problems.
    :param scheduler_seen_at: the last sign of life of a scheduler; ``scheduler_is_alive``: whether it still runs.
    :param poller_seen_at: the last sign of life of a table poller; ``poller_is_alive``: whether it still runs.
    :param ended: the newest runs that were launched or discarded, newest first.
    :param at_gates: the runs of its DAG that wait at a gate inside the DAG, whatever started them, oldest first.
    """

    stored: StoredSchedule
    trigger: Judgement
    pending: PendingRun | None
    launching: PendingRun | None
    problem: str | None
    next_tick: datetime | None
    ended: tuple[PendingRun, ...]
    at_gates: tuple[GatedRun, ...] = ()
    deadline: datetime | None = None
    absorbs: bool = False
    sources: tuple[TriggerSource, ...] = ()
    scheduler_seen_at: datetime | None = None
    scheduler_is_alive: bool = True
    poller_seen_at: datetime | None = None
    poller_is_alive: bool = True
    start_at: datetime | None = None
    events: int = 0
    holders: tuple[tuple[str, str], ...] = ()

    @property
    def blocked_by(self) -> tuple[Reason, ...]:
        """The constraints that a triggered run waits for."""
        reasons = self.pending.reasons if self.pending is not None else ()
        return tuple(reason for reason in reasons if not reason.met and reason.what != "trigger")

    @property
    def pending_trigger(self) -> bool:
        """Whether its trigger is not satisfied yet."""
        return self.pending is None or self.pending.state is PendingState.TRIGGER

    @property
    def no_scheduler(self) -> Text | None:
        """What to do if no scheduler runs for an enabled schedule; otherwise ``None``."""
        if self.scheduler_is_alive or not self.stored.enabled:
            return None
        return Text("No scheduler is running: ", *_last_run(self.scheduler_seen_at), f". {START_SCHEDULER}")

    @property
    def no_poller(self) -> Text | None:
        """What to do if a scheduler runs, but no poller reads what an enabled schedule listens to."""
        listens = any(source.kind not in ("dag", "asset") for source in self.sources)
        if self.poller_is_alive or not listens or self.no_scheduler is not None:
            return None
        advice = "It runs inside the scheduler: search its log for tables_not_polled, or restart it"
        return Text("No table poller is running: ", *_last_run(self.poller_seen_at), f". {advice}.")

    @property
    def next_step(self) -> Text | None:
        """The command that helps a stuck schedule; ``None`` for one that waits for its trigger without a problem."""
        stored, of_run = self.stored, self.stored.origin is ScheduleOrigin.RUN
        if stored.read is None:
            return Text(f"To see its definition: `airflow snowpack {'runs' if of_run else 'schedules'} show {stored.name}`.")
        if not stored.enabled:
            resume = "runs enable" if of_run else "schedules resume"
            return Text(f"To resume it: `airflow snowpack {resume} {stored.name}`.")
        if self.no_scheduler is not None:
            return None  # its sentence names the command
        if self.launching is not None and self.problem == paused_problem(stored.dag_id):
            return Text(f"To unpause the DAG: `airflow dags unpause {stored.dag_id}`.")
        if any(source.kind == "dag" and source.problem is not None for source in self.sources):
            return FIND_IMPORT_ERRORS
        if self.no_poller is not None or self.trigger.problem is not None or (self.launching is not None and self.problem):
            return FIND_PROBLEM
        if self.blocked_by:
            start = "runs run" if of_run else "schedules run"
            return Text(f"To start a run now without its constraints: `airflow snowpack {start} {stored.name}`.")
        return None

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        return [str(sentence) for sentence in self.parts()]

    def parts(self) -> list[Text]:
        """Return the explanation as sentences."""
        gates = [Text(f"Run {run.place.run_id} waits at its gate {run.place.task}: {run.text}.") for run in self.at_gates]
        return [*self._present(), *gates, *([_ending(run) for run in self.ended] or [Text("It has not launched yet.")])]

    def _present(self) -> Iterator[Text]:
        stored = self.stored
        if not stored.enabled:
            yield Text(f"{stored.name} is suspended and ignores events. Resume it to count them.")
        elif stored.read is not None:
            yield Text(f"{stored.name} is enabled and starts {stored.dag_id}.")
            yield from self._trigger()
            yield from self._launching()
            yield from self._waiting()
        else:
            yield Text(f"{stored.name} is enabled.")
        if stored.read is None:
            yield Text(f"Its definition cannot be read by this version: {stored.problem}")
            kept = "Its events are kept, and counted by a version that can read it, or ignored once it is changed."
            yield Text(kept if stored.enabled else "It can be changed or deleted.")
            yield from self._launching() if stored.enabled else ()
        if self.next_step is not None:
            yield self.next_step

    def _trigger(self) -> Iterator[Text]:
        yield from (missing for missing in (self.no_scheduler, self.no_poller) if missing is not None)
        if self.pending is not None and self.pending.triggered_at is not None:
            yield Text("Its trigger is satisfied since ", self.pending.triggered_at, f": {self.trigger.text}.")
        else:
            yield Text(f"Its trigger is {'satisfied' if self.trigger.satisfied else 'not satisfied'}: {self.trigger.text}.")
        if self.trigger.problem is not None:
            yield Text(f"Its trigger cannot be satisfied at present: {self.trigger.problem}.")

    def _launching(self) -> Iterator[Text]:
        if self.launching is None:
            return
        run_id = self.launching.run_id
        if self.problem:
            next_start = () if self.start_at is None else (" The next attempt is at ", self.start_at, ".")
            yield Text(f"Run {run_id} could not be started: {self.problem.rstrip('.')}.", *next_start)
        else:
            yield Text(f"Run {run_id} is starting.")
        if self.events:
            yield Text(f"It has {plural(self.events, 'event')}.")
        if self.absorbs:
            yield Text("Further events join this run until it starts.")

    def _waiting(self) -> Iterator[Text]:
        if self.pending is not None and self.pending.state is PendingState.CONSTRAINT:
            for reason in self.blocked_by:
                until = (", until ", reason.not_before) if reason.not_before else ()
                yield Text(f"It waits: {reason.text}", *until, ".")
            yield from self._holders()
            if self.pending.next_check_at is not None:
                yield Text("Its constraints are next evaluated at ", self.pending.next_check_at, ".")
            if self.pending.expires_at is not None:
                discards = self.stored.schedule.timeout.then is Then.DISCARD
                then = "discarded" if discards else "launched"
                yield Text("If it still waits at ", self.pending.expires_at, f", it is {then}.")
                if discards and self._opens_at is not None and self._opens_at >= self.pending.expires_at:
                    yield Text("It cannot run before that. Give the schedule a longer timeout, or another constraint.")
        if self.next_tick is not None:
            yield Text("Its clock is next due at ", self.next_tick, ".")
        if self.deadline is not None and self.pending_trigger:
            yield Text("Its deadline is ", self.deadline, ": it then starts without the rest of its trigger.")
        yield from (_source(source) for source in self.sources if source.kind == "table" or source.problem is not None)

    def _holders(self) -> Iterator[Text]:
        if self.holders:
            shown = [f"{run_id} of {dag_id}" for dag_id, run_id in self.holders[:LAST]]
            more = len(self.holders) - len(shown)
            others = f" and {plural(more, 'other run')}" if more else ""
            yield Text(f"The places are taken by {', '.join(shown)}{others}. It starts when one of them ends.")

    @property
    def _opens_at(self) -> datetime | None:
        """The earliest time at which its constraints may be met."""
        return max((reason.not_before for reason in self.blocked_by if reason.not_before is not None), default=None)


def _last_run(seen_at: datetime | None) -> tuple[str | datetime, ...]:
    return ("none has run on this store",) if seen_at is None else ("the last one ran at ", seen_at)


def explain(schedules: Schedules, name: str) -> Explanation:
    """:raises ScheduleNotFound: there is no schedule with this name."""
    return explain_all(schedules, [schedules.get(name)])[name]


def explain_all(schedules: Schedules, stored: Sequence[StoredSchedule]) -> dict[str, Explanation]:
    """Explain several schedules, by name: a few statements for all, and one for each with uncounted events."""
    if not stored:
        return {}
    return schedules.store.read(lambda conn: _explain(conn, stored, schedules.catalog, schedules.store.clock()))


def _explain(conn: sa.Connection, stored: Sequence[StoredSchedule], catalog: str, now: datetime) -> dict[str, Explanation]:
    names = [one.name for one in stored]
    waiting, launching = _current(conn, stored)
    ended, ticks = _ended(conn, names), _next_ticks(conn, names)
    at_gates = waiting_at_gates(conn, [one.dag_id for one in stored])
    problems, read_at = _read_sources(conn, stored, catalog, now)
    seen_at, polled_at = last_seen(conn, Role.SCHEDULER), last_seen(conn, Role.POLLER)
    keys = {row.waits_for for row in waiting.values() if row.waits_for is not None}
    holders = {key: tuple(sorted(runs_that_count(conn, key))) for key in sorted(keys)}
    explained = {}
    for one in stored:
        name, row = one.name, waiting.get(one.name)
        sent, judgement = launching.get(name), _judged(conn, one, row, now)
        if one.enabled and one.read is not None:
            judgement = with_problems(one.read.trigger, judgement, blocking(one.read, problems, catalog))
        explained[name] = Explanation(
            stored=one,
            trigger=judgement,
            pending=_pending(row),
            launching=_pending(sent),
            problem=None if sent is None else sent.problem,
            absorbs=sent is not None and sent.absorbs,
            start_at=None if sent is None else sent.visible_at,
            events=0 if sent is None else sent.events,
            holders=() if row is None else holders.get(row.waits_for, ()),
            next_tick=min(ticks.get(name, {}).values(), default=None),
            deadline=_deadline(one, ticks.get(name, {})),
            sources=_sources(one, problems, read_at, catalog),
            scheduler_seen_at=seen_at,
            scheduler_is_alive=is_alive(seen_at, now),
            poller_seen_at=polled_at,
            poller_is_alive=is_alive(polled_at, now),
            ended=tuple(ended.get(name, ())),
            at_gates=tuple(run for run in at_gates if run.place.dag_id == one.dag_id),
        )
    return explained


def _judged(conn: sa.Connection, one: StoredSchedule, row: sa.Row[Any] | None, now: datetime) -> Judgement:
    """Evaluate its trigger, including events that no check has counted yet."""
    if one.read is None:
        return Judgement(False, "not known, since its definition cannot be read")
    return one.read.trigger.evaluate({} if row is None else count_events(conn, row, one.read).progress, now)


def _read_sources(
    conn: sa.Connection, stored: Sequence[StoredSchedule], catalog: str, now: datetime
) -> tuple[dict[str, SourceProblem], dict[str, datetime]]:
    """Return the problems of the sources of enabled schedules, and when each table was last read, by key."""
    enabled = [one.read for one in stored if one.enabled and one.read is not None]
    keys = source_keys(enabled, catalog)
    tables = sorted(key for key in keys if key.startswith(TABLES))
    read_at: dict[str, datetime] = {}
    for start in range(0, len(tables), KEYS_PER_STATEMENT):
        names = [key.removeprefix(TABLES) for key in tables[start : start + KEYS_PER_STATEMENT]]
        query = sa.select(table_places.c.table_key, table_places.c.read_at).where(table_places.c.table_key.in_(names))
        read_at |= {f"{TABLES}{row.table_key}": row.read_at for row in conn.execute(query)}
    problems = read_problems(conn, keys | {dag_source(one.dag_id) for one in enabled})
    return problems | uninstalled(keys, now), read_at


def _sources(
    one: StoredSchedule, problems: Mapping[str, SourceProblem], read_at: Mapping[str, datetime], catalog: str
) -> tuple[TriggerSource, ...]:
    """Return what an enabled schedule listens to, and the DAG that it starts if that does not exist."""
    if one.read is None or not one.enabled:
        return ()
    found = sources_of(one.read, problems, read_at, catalog)
    target = problems.get(dag_source(one.dag_id))
    if target is None or any((source.kind, source.name) == ("dag", one.dag_id) for source in found):
        return found
    problem = f"the DAG {one.dag_id}, which it starts, does not exist"
    return (*found, TriggerSource("dag", one.dag_id, None, problem, target.confirmed_at))


def _source(source: TriggerSource) -> Text:
    found: list[str | datetime] = [] if source.problem is None else [f"{source.problem[:1].upper()}{source.problem[1:]}"]
    if source.confirmed_at is not None:
        found += [" (found at ", source.confirmed_at, ")."]
    if source.kind == "table":
        found.append(" It " if found else f"The table {source.name} ")
        found += ["has not been read yet."] if source.read_at is None else ["was last read at ", source.read_at, "."]
    return Text(*found)


def _current(conn: sa.Connection, stored: Sequence[StoredSchedule]) -> tuple[dict[str, sa.Row[Any]], dict[str, sa.Row[Any]]]:
    """Return the pending runs by schedule: the open ones, and the oldest of those that are starting."""
    generations = [(one.name, one.generation) for one in stored]
    mine = sa.tuple_(pending_jobs.c.schedule, pending_jobs.c.generation).in_(generations)
    waiting = conn.execute(sa.select(pending_jobs).where(mine, pending_jobs.c.state.in_(OPEN))).all()
    of_run = sa.select(sa.func.count()).where(pending_events.c.pending_id == pending_jobs.c.pending_id)
    launch = (launches.c.problem, launches.c.absorbs, launches.c.visible_at, of_run.scalar_subquery().label("events"))
    sent = sa.select(pending_jobs, *launch)
    sent = sent.join(launches, launches.c.pending_id == pending_jobs.c.pending_id)
    sent = sent.where(mine, pending_jobs.c.state == PendingState.LAUNCH.value).order_by(pending_jobs.c.created_at.desc())
    return {row.schedule: row for row in waiting}, {row.schedule: row for row in conn.execute(sent)}


def _ended(conn: sa.Connection, names: Sequence[str]) -> dict[str, list[PendingRun]]:
    """Return the newest ended runs of each schedule, by the index on schedule and time."""
    newest_first = pending_jobs.c.created_at.desc()
    place = sa.func.row_number().over(partition_by=pending_jobs.c.schedule, order_by=newest_first).label("place")
    ended = (pending_jobs.c.schedule.in_(names), pending_jobs.c.ended_at.is_not(None))
    over = sa.select(pending_jobs, place).where(*ended).subquery()
    found: dict[str, list[PendingRun]] = {}
    for row in conn.execute(sa.select(over).where(over.c.place <= LAST).order_by(over.c.schedule, over.c.place)):
        found.setdefault(row.schedule, []).append(pending_from(row))
    return found


def _next_ticks(conn: sa.Connection, names: Sequence[str]) -> dict[str, dict[int, datetime]]:
    """Return when the clocks of each schedule are due next, by the number of their leaf."""
    query = sa.select(schedule_clocks.c.schedule, schedule_clocks.c.leaf, schedule_clocks.c.next_at)
    ticks: dict[str, dict[int, datetime]] = {}
    for row in conn.execute(query.where(schedule_clocks.c.schedule.in_(names))):
        ticks.setdefault(row.schedule, {})[row.leaf] = row.next_at
    return ticks


def _deadline(one: StoredSchedule, ticks: Mapping[int, datetime]) -> datetime | None:
    leaves = () if one.read is None else one.read.trigger.leaves()
    ends = [ticks[number] for number, leaf in enumerate(leaves) if number in ticks and leaf.clock and leaf.clock.is_deadline]
    return min(ends, default=None)


def _pending(row: sa.Row[Any] | None) -> PendingRun | None:
    return None if row is None else pending_from(row)


def _ending(run: PendingRun) -> Text:
    assert run.ended_at is not None, "only ended runs are read"
    became = f"launched {run.run_id}" if run.state is PendingState.LAUNCHED else f"discarded: {run.ended_because}"
    return Text(run.ended_at, f": {became}.")
