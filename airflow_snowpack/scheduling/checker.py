"""The checker: looks at pending jobs whose moment has come, and sends off those whose trigger and constraints are satisfied.

    Checker(store, surroundings).step()

It looks at nothing before the moment that a look before named. The invariant: **checking and reserving is one step.** A
pending job is looked at in a transaction of its own, under locks on what its constraints count, and the run that it is to
become counts from the commit on; so two schedules, or two processes, cannot both take the last place.

However many wait, nobody is kept from being looked at: of equal priority those come first who are due for the longest.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.asking import Asking
from airflow_snowpack.scheduling.clocks import restart_periods
from airflow_snowpack.scheduling.constraint import RECHECK
from airflow_snowpack.scheduling.counting import Counted, count_events, fired_by
from airflow_snowpack.scheduling.errors import InvalidSchedule
from airflow_snowpack.scheduling.facts import StoredFacts, counted_keys, take_turns
from airflow_snowpack.scheduling.history import note
from airflow_snowpack.scheduling.late_events import begin_with_late_events, expiry
from airflow_snowpack.scheduling.pending import PendingState, Reason, is_open, move, reasons_from_json, reasons_to_json
from airflow_snowpack.scheduling.reservation import Wanted, reserve_run, run_id_of
from airflow_snowpack.scheduling.rulings import Rulings, rule_all
from airflow_snowpack.scheduling.runs import LOOK_AGAIN, ended_meanwhile
from airflow_snowpack.scheduling.schedule import LaunchBacklog, Schedule, Then
from airflow_snowpack.scheduling.surroundings import Snapshot, Surroundings
from airflow_snowpack.scheduling.unmet import keep_unmet, keep_unmet_of_expired
from airflow_snowpack.scheduling.waiters import SELDOM, elder_due, next_in_line, stands_in_front, wake
from airflow_snowpack.store import Store
from airflow_snowpack.store.schedule_tables import pending_jobs, schedules

log = logging.getLogger(__name__)

NOT_WAITING = {"next_check_at": None, "waits_for": None}


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What one step did.

    :param looked_at: how many pending jobs it looked at.
    :param sent_off: the ids of those that are to be launched now; ``discarded``: of those that never will be.
    """

    looked_at: int = 0
    sent_off: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Due:
    """One pending job under the checker's eyes, its row held.

    :param counted: what its events add up to.
    """

    row: sa.Row[Any]
    schedule: Schedule
    trigger: Reason
    triggered_at: datetime
    expires_at: datetime
    counted: Counted

    def is_discarded_at(self, now: datetime) -> bool:
        """Whether its timeout discards it then, which keeps the events that arrived after the expiry; a skip would not."""
        return now >= self.expires_at and self.schedule.timeout.then is Then.DISCARD


class Checker:
    """Looks at what is due.

    :param surroundings: how things stand in Airflow.
    """

    def __init__(self, store: Store, surroundings: Surroundings) -> None:
        self._store = store
        self._asking = Asking(store, surroundings)

    def step(self, limit: int = 200) -> CheckReport:
        """Look at the pending jobs that are due, the most urgent first."""
        due = self._find(limit)
        if not due:
            return CheckReport()
        schedules_due = [schedule for _, schedule in due if schedule is not None]
        snapshot = self._asking.ask([(one.dag_id, each) for one in schedules_due for each in one.constraints])
        outcomes = {pending_id: self._look_at(pending_id, snapshot) for pending_id, _ in due}
        return CheckReport(
            looked_at=sum(outcome is not None for outcome in outcomes.values()),
            sent_off=tuple(key for key, outcome in outcomes.items() if outcome is PendingState.LAUNCH),
            discarded=tuple(key for key, outcome in outcomes.items() if outcome is PendingState.DISCARDED),
        )

    def _find(self, limit: int) -> list[tuple[str, Schedule | None]]:
        columns = (pending_jobs.c[name] for name in ("pending_id", "schedule", "priority", "created_at", "next_check_at"))
        # Each step for itself: Postgres plans for any moment, of which it takes a third of all that wait to be due, and would
        # walk over all schedules to join them.
        due = sa.select(*columns).where(pending_jobs.c.next_check_at <= self._store.clock(), is_open).cte("due")
        due = due.prefix_with("MATERIALIZED", dialect="postgresql")
        # The more urgent first, and of those the ones that are due for the longest, or the looks that are repeated for those who
        # wait would keep a new one from ever being looked at. That it takes nobody's place is seen to in its look.
        first = sa.select(due).order_by(*_by_turn(due)).limit(limit).subquery()
        # A subquery and not a join, for the same reason; there is none where the subscriber has begun a job while its schedule
        # was deleted, and the job is discarded here.
        definition = sa.select(schedules.c.definition).where(schedules.c.name == first.c.schedule).scalar_subquery()
        query = sa.select(first.c.pending_id, definition.label("definition"))
        query = query.order_by(*_by_turn(first))
        rows = self._store.read(lambda conn: conn.execute(query).all())
        return [(row.pending_id, _readable(row.definition)) for row in rows]

    def _look_at(self, pending_id: str, snapshot: Snapshot) -> PendingState | None:
        return self._store.transact(lambda conn: self._look(conn, pending_id, snapshot))

    def _look(self, conn: sa.Connection, pending_id: str, snapshot: Snapshot) -> PendingState | None:
        """Look at one; ``None`` when somebody else is at it, or it is not due any more."""
        now = self._store.clock()
        mine = sa.select(pending_jobs).where(pending_jobs.c.pending_id == pending_id, is_open)
        mine = mine.where(pending_jobs.c.next_check_at <= now).with_for_update(skip_locked=True)
        row = conn.execute(mine).first()
        if row is None:
            return None
        named = sa.select(schedules).where(schedules.c.name == row.schedule)
        # Shared, so that no change of the schedule commits between this look and its effect. One that is under way holds the
        # row already and will want the pending job: so this look is left for later, and neither waits for the other.
        current = conn.execute(named.with_for_update(read=True, skip_locked=True)).first()
        if current is None and conn.execute(named).first() is not None:
            return None
        if current is None or current.generation != row.generation:
            return self._discard(conn, row, PendingState(row.state), "the schedule was changed")
        try:
            schedule = Schedule.from_json(current.definition)
        except InvalidSchedule as error:
            return self._set_aside(conn, row, error)
        counted = count_events(conn, row, schedule)
        judgement = schedule.trigger.judge(counted.progress, now)
        if row.triggered_at is None and not judgement.satisfied:
            reason = Reason("trigger", judgement.says, met=False, not_before=judgement.next_at)
            self._wait(conn, row, (reason,), judgement.next_at, None, counted.to_row())
            return PendingState.TRIGGER
        trigger = Reason("trigger", judgement.says, met=True)
        # Somebody's clock may be ahead of ours; what it says has not happened yet has happened now.
        triggered_at = row.triggered_at or min(judgement.since or now, now)
        expires_at = row.expires_at or expiry(conn, row.pending_id, schedule, triggered_at, now)
        due = _Due(row, schedule, trigger, triggered_at, expires_at, counted)
        if row.triggered_at is None:
            self._note_triggered(conn, due)
        return self._constrain(conn, due, snapshot)

    def _set_aside(self, conn: sa.Connection, row: sa.Row[Any], error: InvalidSchedule) -> PendingState:
        """A definition that this process cannot read, such as one of a newer version: it waits, and keeps nobody else."""
        log.error("schedule_not_readable: %s: %s", row.schedule, error)
        reason = Reason("schedule", f"its definition cannot be read: {error}", met=False)
        self._wait(conn, row, (reason,), self._store.clock() + RECHECK, None, {})
        return PendingState(row.state)

    def _note_triggered(self, conn: sa.Connection, due: _Due) -> None:
        since = due.triggered_at.isoformat()
        note(conn, self._store, due.schedule.name, "triggered", due.row.pending_id, says=due.trigger.says, since=since)
        moments = {"triggered_at": due.triggered_at, "expires_at": due.expires_at}
        move(conn, due.row.pending_id, PendingState.TRIGGER, PendingState.CONSTRAINT, **moments)

    def _constrain(self, conn: sa.Connection, due: _Due, snapshot: Snapshot) -> PendingState:
        """Ask the constraints, and send the run off, let it wait, or discard it."""
        now, schedule = self._store.clock(), due.schedule
        take_turns(conn, schedule)
        place = (schedule.dag_id, schedule.name, schedule.priority)
        facts = StoredFacts(conn, snapshot, now, *place, triggered_at=due.triggered_at)
        rulings = rule_all(schedule.constraints, facts, reasons_from_json(due.row.reasons)[1:])
        reasons = (due.trigger, *rulings.reasons)
        if rulings.skips and not due.is_discarded_at(now):
            self._discard(conn, due.row, PendingState.CONSTRAINT, "; ".join(rulings.skips), reasons, what="skipped")
            keep_unmet(conn, self._store, due.row, schedule, due.counted)
            return PendingState.DISCARDED
        if rulings.all_met:
            elders = counted_keys(schedule.dag_id, schedule.constraints) if now < due.expires_at else ()
            elder = elder_due(conn, due.row, elders, now)
            return self._send_off(conn, due, reasons) if elder is None else self._stand_back(conn, due, reasons, elder)
        if now >= due.expires_at:
            return self._time_out(conn, due, reasons)
        next_at = self._next_look(conn, due, rulings, snapshot)
        self._wait(conn, due.row, reasons, min(next_at, due.expires_at), rulings.waits_for, due.counted.to_row())
        return PendingState.CONSTRAINT

    def _next_look(self, conn: sa.Connection, due: _Due, rulings: Rulings, snapshot: Snapshot) -> datetime:
        now, key = self._store.clock(), rulings.waits_for
        if key is None:
            return rulings.next_look(now)
        if not stands_in_front(conn, due.row, key):
            return now + SELDOM
        ended = ended_meanwhile(conn, key, snapshot.newest_event, now)
        return rulings.next_look(now) if ended is None else now + ended

    def _stand_back(self, conn: sa.Connection, due: _Due, reasons: tuple[Reason, ...], key: str) -> PendingState:
        """Somebody came before it who waits for the same and is to be looked at now. It is woken if there is room for it too."""
        says = "somebody who came before it is looked at first"
        next_at = min(self._store.clock() + LOOK_AGAIN, due.expires_at)
        self._wait(conn, due.row, (*reasons, Reason("line", says, met=False)), next_at, key, due.counted.to_row())
        return PendingState.CONSTRAINT

    def _time_out(self, conn: sa.Connection, due: _Due, reasons: tuple[Reason, ...]) -> PendingState:
        timeout = due.schedule.timeout
        unmet = "; ".join(reason.says for reason in reasons if not reason.met)
        why = f"its constraints were not met within {timeout.period}: {unmet}"
        if timeout.then is Then.DISCARD:
            discarded = self._discard(conn, due.row, PendingState.CONSTRAINT, why, reasons, what="timed_out")
            late = begin_with_late_events(conn, due.row, due.expires_at, self._store.clock())
            keep_unmet_of_expired(conn, self._store, due.row, due.schedule, due.counted, late)
            return discarded
        note(conn, self._store, due.schedule.name, "timed_out", due.row.pending_id, because=why, then="launch")
        return self._send_off(conn, due, reasons)

    def _wait(
        self,
        conn: sa.Connection,
        row: sa.Row[Any],
        reasons: tuple[Reason, ...],
        next_at: datetime | None,
        waits_for: str | None,
        counted: Mapping[str, Any],
    ) -> None:
        changes = {"reasons": reasons_to_json(reasons), "next_check_at": next_at, "waits_for": waits_for, **counted}
        mine = pending_jobs.c.pending_id == row.pending_id
        conn.execute(sa.update(pending_jobs).where(mine).values(**changes))
        self._leave_line(conn, row, waits_for)

    def _leave_line(self, conn: sa.Connection, row: sa.Row[Any], waits_for: str | None = None) -> None:
        """Whoever stands behind it may be next now."""
        if row.waits_for not in (None, waits_for):
            now = self._store.clock()
            wake(conn, next_in_line(conn, [row.waits_for], now), now, skip_locked=True)

    def _send_off(self, conn: sa.Connection, due: _Due, reasons: tuple[Reason, ...]) -> PendingState:
        """Reserve the run and hand it to the launcher."""
        schedule, pending_id = due.schedule, due.row.pending_id
        run_id = run_id_of(schedule.name, pending_id, due.row.created_at)
        changes = {"reasons": reasons_to_json(reasons), "run_id": run_id, **NOT_WAITING, **due.counted.to_row()}
        move(conn, pending_id, PendingState.CONSTRAINT, PendingState.LAUNCH, **changes)
        progress = due.counted.progress
        told = fired_by(conn, pending_id, schedule, progress, self._store.clock())
        absorbs = schedule.backlog is LaunchBacklog.ONE
        reserve_run(conn, self._store, Wanted.by(schedule), pending_id, run_id, told, absorbs=absorbs)
        restart_periods(conn, self._store, schedule, progress)
        self._leave_line(conn, due.row)
        return PendingState.LAUNCH

    def _discard(
        self,
        conn: sa.Connection,
        row: sa.Row[Any],
        was: PendingState,
        why: str,
        reasons: tuple[Reason, ...] = (),
        *,
        what: str = "discarded",
    ) -> PendingState:
        kept = {"reasons": reasons_to_json(reasons)} if reasons else {}
        ended = {"ended_at": self._store.clock(), "ended_because": why, **NOT_WAITING, **kept}
        move(conn, row.pending_id, was, PendingState.DISCARDED, **ended)
        note(conn, self._store, row.schedule, what, row.pending_id, because=why)
        self._leave_line(conn, row)
        return PendingState.DISCARDED


def _by_turn(due: sa.FromClause) -> tuple[sa.ColumnElement[Any], ...]:
    return (due.c.priority.desc(), due.c.next_check_at, due.c.created_at, due.c.pending_id)


def _readable(definition: object) -> Schedule | None:
    try:
        return None if definition is None else Schedule.from_json(definition)
    except InvalidSchedule:
        return None  # said in its look
