"""One transaction of the checker: evaluates a batch of pending runs, and reserves those that may start.

    outcomes = store.transact(lambda conn: Evaluation(store, conn, snapshot).evaluate(pending_ids, definitions))

The invariant: **checking and reserving is one step, and a batch decides what its runs would decide one after the other.** The
transaction locks its pending runs and the wait keys that their constraints count, reads each fact once, and adds its decisions to
the facts (:mod:`airflow_snowpack.scheduling.pending_runs.constraint_context`).

An expired pending run stays open until it is evaluated, and may have expired before it was ever evaluated. So **a timeout
discards no event that arrived after the expiry, and an event belongs to one pending run**: late events move to a new pending run
of the schedule, and so do those of unmet triggers with their sums. The events of the satisfied triggers stay, or the same run
would replace itself again and again.

Locks are taken in one order: first the pending runs and their schedules, skipping those that another transaction has locked; then
the wait keys, the places of the DAGs and the clocks, which are waited for. To stay short, a transaction locks at most
:data:`LOCK_LIMIT` wait keys and ends at most :data:`DISCARD_LIMIT` pending runs; the next transaction does the rest.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.humanize import duration
from airflow_snowpack.scheduling.airflow_port import AirflowSnapshot
from airflow_snowpack.scheduling.constraints.constraint import RECHECK, counted_keys, dag_wait_key, group_wait_key
from airflow_snowpack.scheduling.counts import evaluated
from airflow_snowpack.scheduling.events.clocks import restart_periods
from airflow_snowpack.scheduling.events.counting import Counted, count_all, count_each, listed_events, missing_inputs
from airflow_snowpack.scheduling.history import line, note, write_lines
from airflow_snowpack.scheduling.launches.active_runs import Reservation, reserve_runs, run_id_of
from airflow_snowpack.scheduling.launches.run_ends import LOOK_AGAIN, ended_meanwhile
from airflow_snowpack.scheduling.pending_runs.constraint_context import ConstraintFacts, rule_all
from airflow_snowpack.scheduling.pending_runs.model import (
    Locked,
    PendingState,
    PendingWrite,
    Reason,
    lock_batch,
    move,
    reasons_from_json,
    reasons_to_json,
    write_all,
)
from airflow_snowpack.scheduling.pending_runs.wait_queue import FALLBACK_CHECK_INTERVAL, Fronts, elder_due, wake_next
from airflow_snowpack.scheduling.schedule import Definitions, LaunchBacklog, Schedule, Then
from airflow_snowpack.scheduling.triggers.trigger import Judgement
from airflow_snowpack.store import Store, new_id, storable_error
from airflow_snowpack.store.counters import add_counts
from airflow_snowpack.store.dialect import lock_keys
from airflow_snowpack.store.tables.schedules import events, pending_events, pending_jobs

log = logging.getLogger(__name__)

LOCK_LIMIT = 256
"""Postgres has room for a few thousand locks in all by default."""
DISCARD_LIMIT = 50
"""A discard costs a few extra statements."""

Outcomes = dict[str, PendingState | None]
_Judged = tuple[Counted, Judgement]


@dataclass(frozen=True, slots=True)
class _Due:
    """A pending run whose trigger is satisfied, with the sums of its events."""

    row: sa.Row[Any]
    schedule: Schedule
    trigger: Reason
    triggered_at: datetime
    expires_at: datetime
    counted: Counted

    @property
    def moments(self) -> dict[str, Any]:
        """The columns of its times."""
        return {"triggered_at": self.triggered_at, "expires_at": self.expires_at}

    def is_discarded_at(self, now: datetime) -> bool:
        """Return whether its timeout discards it then, which keeps events that arrived after the expiry; a skip would not."""
        return now >= self.expires_at and self.schedule.timeout.then is Then.DISCARD


class Evaluation:
    """Evaluates one batch on a snapshot of Airflow taken before the transaction; used once."""

    def __init__(self, store: Store, conn: sa.Connection, snapshot: AirflowSnapshot) -> None:
        self._store = store
        self._conn = conn
        self._snapshot = snapshot
        self._now = store.clock()
        self._facts = ConstraintFacts(conn, snapshot, self._now)
        self._fronts = Fronts(conn)
        self._waiting: list[PendingWrite] = []
        self._entries: list[dict[str, Any]] = []
        self._reserved: list[tuple[_Due, str]] = []
        self._launch_writes: list[PendingWrite] = []
        self._left_queues: set[str] = set()
        self._discards = 0

    def evaluate(
        self, pending_ids: Sequence[str], definitions: Definitions, failed: Mapping[str, Exception] | None = None
    ) -> Outcomes:
        """Evaluate these pending runs in order.

        :param definitions: the schedules as read for the snapshot.
        :param failed: the errors of earlier evaluations by pending run; these runs are set aside.
        :returns: the state of each; ``None`` for a run that another process has locked or that is no longer due. Missing runs,
            never all, are left to the next transaction.
        """
        found = lock_batch(self._conn, pending_ids, self._now, definitions, failed or {})
        outcomes: Outcomes = {pending_id: None for pending_id in pending_ids if pending_id not in found}
        in_order = [found[pending_id] for pending_id in pending_ids if pending_id in found]
        readable = [(run.row, run.schedule) for run in in_order if run.schedule is not None]
        judged: dict[str, _Judged] = {
            row.pending_id: (counted, schedule.trigger.evaluate(counted.progress, self._now))
            for (row, schedule), counted in zip(readable, count_each(self._conn, readable), strict=True)
        }
        for run in self._lock_keys(in_order, judged):
            if self._discards >= DISCARD_LIMIT:
                break
            outcomes[run.row.pending_id] = self._evaluate(run, judged.get(run.row.pending_id))
        self._finish()
        add_counts(self._conn, evaluated(outcomes.values()))
        return outcomes

    def _lock_keys(self, runs: Sequence[Locked], judged: Mapping[str, _Judged]) -> list[Locked]:
        """Lock the wait keys that these runs count, and read the facts; the runs beyond :data:`LOCK_LIMIT` are left."""
        keys: set[str] = set()
        taken: list[Locked] = []
        asking: list[Schedule] = []
        for run in runs:
            if run.schedule is not None and (run.row.triggered_at is not None or judged[run.row.pending_id][1].satisfied):
                counts = counted_keys(run.schedule.dag_id, run.schedule.constraints)
                if keys and len(keys | counts) > LOCK_LIMIT:
                    break
                keys |= counts
                asking.append(run.schedule)
            taken.append(run)
        lock_keys(self._conn, keys)
        self._facts = ConstraintFacts(self._conn, self._snapshot, self._store.clock())
        self._facts.read(asking)
        return taken

    # --- one pending run -------------------------------------------------------------------------------------------------

    def _evaluate(self, run: Locked, judged: _Judged | None) -> PendingState:
        row, schedule = run.row, run.schedule
        self._now = self._store.clock()  # a run that was just woken is due, and may come before this one
        if run.problem is not None:
            return self._set_aside(row, run.problem)
        if schedule is None or judged is None:
            self._flush()
            return self._discard(row, PendingState(row.state), "the schedule was changed")
        counted, judgement = judged
        if row.triggered_at is None and not judgement.satisfied:
            reason = Reason("trigger", judgement.text, met=False, not_before=judgement.next_at)
            return self._wait(PendingWrite.of(row, **_changes((reason,), judgement.next_at, None, counted)))
        trigger = Reason("trigger", judgement.text, met=True)
        # Another host's clock may be ahead; what is in the future by that clock has happened now.
        triggered_at = row.triggered_at or min(judgement.since or self._now, self._now)
        expires_at = row.expires_at or expiry(self._conn, row.pending_id, schedule, triggered_at, self._now)
        return self._constrain(_Due(row, schedule, trigger, triggered_at, expires_at, counted))

    def _set_aside(self, row: sa.Row[Any], problem: str) -> PendingState:
        """Make a run wait that this process cannot read or evaluate, such as one of a newer version, without blocking others."""
        problem = storable_error(problem)
        log.error("schedule_not_readable: %s: %s", row.schedule, problem)
        reason = Reason("schedule", problem, met=False)
        return self._wait(PendingWrite.of(row, **_changes((reason,), self._now + RECHECK, None, None)))

    def _constrain(self, due: _Due) -> PendingState:
        """Evaluate the constraints, and reserve the run, make it wait, or discard it."""
        now, schedule = self._now, due.schedule
        facts = self._facts.context(schedule, due.triggered_at, now)
        rulings = rule_all(schedule.constraints, facts, reasons_from_json(due.row.reasons)[1:])
        reasons = (due.trigger, *rulings.reasons)
        if rulings.skips and not due.is_discarded_at(now):
            self._write_triggered(due)
            self._discard(due.row, PendingState.CONSTRAINT, "; ".join(rulings.skips), reasons, what="skipped")
            keep_unmet(self._conn, self._store, due.row, schedule, due.counted)
            return PendingState.DISCARDED
        if rulings.all_met:
            elder = self._due_ahead(due)
            if elder is None:
                return self._start(due, reasons)
            first = Reason("queue", "a run that came before it is evaluated first", met=False)
            # It is woken too if there is room for it.
            return self._wait_for_constraints(due, (*reasons, first), min(now + LOOK_AGAIN, due.expires_at), elder)
        # Facts that an outage of Airflow hides are no reason to discard a run: its constraints may be met.
        if now >= due.expires_at and not self._snapshot.is_outage:
            return self._time_out(due, reasons)
        key = rulings.waits_for
        next_at = None if key is not None else self._next_check(rulings.not_before or now + RECHECK, due.expires_at)
        return self._wait_for_constraints(due, reasons, next_at, key)

    def _next_check(self, moment: datetime, expires_at: datetime) -> datetime:
        """Return when to evaluate a run again: at its expiry at the latest, unless an outage has kept it longer."""
        return min(moment, expires_at) if self._now < expires_at else moment

    def _due_ahead(self, due: _Due) -> str | None:
        """Return the wait key of a due run ahead of this one in the queue."""
        keys = counted_keys(due.schedule.dag_id, due.schedule.constraints) if self._now < due.expires_at else set()
        if not keys:
            return None
        self._flush()  # runs that were evaluated before it are no longer due
        return elder_due(self._conn, due.row, keys, self._now)

    def _time_out(self, due: _Due, reasons: tuple[Reason, ...]) -> PendingState:
        timeout = due.schedule.timeout
        unmet = "; ".join(reason.text for reason in reasons if not reason.met)
        why = f"its constraints were not met within {duration(timeout.period)}: {unmet}"
        self._write_triggered(due)
        if timeout.then is Then.DISCARD:
            discarded = self._discard(due.row, PendingState.CONSTRAINT, why, reasons, what="timed_out")
            keep_of_expired(self._conn, self._store, due.row, due.schedule, due.counted, due.expires_at)
            return discarded
        note(self._conn, self._store, due.schedule.name, "timed_out", due.row.pending_id, because=why, then="launch")
        return self._start(due, reasons, was=PendingState.CONSTRAINT)

    # --- what becomes of it ---------------------------------------------------------------------------------------------

    def _wait_for_constraints(
        self, due: _Due, reasons: tuple[Reason, ...], next_at: datetime | None, waits_for: str | None
    ) -> PendingState:
        """Make a triggered run wait until ``next_at``; with ``None`` its place in the queue decides when to evaluate it again."""
        self._note_triggered(due)
        changes = _changes(reasons, next_at, waits_for, due.counted)
        return self._wait(PendingWrite.of(due.row, state=PendingState.CONSTRAINT, **due.moments, **changes))

    def _wait(self, write: PendingWrite) -> PendingState:
        was, key = write.row.waits_for, write.values["waits_for"]
        self._waiting.append(write)
        self._facts.move(write.row.priority, was, key)
        if was not in (None, key):
            self._left_queues.add(was)
        return write.state

    def _start(self, due: _Due, reasons: tuple[Reason, ...], was: PendingState | None = None) -> PendingState:
        """Reserve the run at the end of the batch; it counts from now on. ``was`` is the state if already written."""
        row, schedule = due.row, due.schedule
        run_id = run_id_of(schedule.name, row.pending_id, row.created_at)
        if was is None:
            self._note_triggered(due)
        changes = _changes(reasons, None, None, due.counted)
        start = PendingWrite.of(row, state=PendingState.LAUNCH, was=was, run_id=run_id, **due.moments, **changes)
        if row.waits_for is None:
            self._launch_writes.append(start)
        else:  # at once, or it would be due before those behind it
            write_all(self._conn, [start])
        self._leave_queue(row)
        self._facts.reserve(schedule.dag_id, run_id, schedule.constraints)
        self._reserved.append((due, run_id))
        return PendingState.LAUNCH

    def _discard(
        self, row: sa.Row[Any], was: PendingState, why: str, reasons: tuple[Reason, ...] = (), *, what: str = "discarded"
    ) -> PendingState:
        kept = {"reasons": reasons_to_json(reasons)} if reasons else {}
        ended = {"ended_at": self._now, "ended_because": why, "next_check_at": None, "waits_for": None, **kept}
        move(self._conn, row.pending_id, was, PendingState.DISCARDED, **ended)
        note(self._conn, self._store, row.schedule, what, row.pending_id, because=why)
        self._leave_queue(row)
        self._discards += 1
        return PendingState.DISCARDED

    def _leave_queue(self, row: sa.Row[Any]) -> None:
        """Note that the next run in its queue may be due now."""
        if row.waits_for is not None:
            self._facts.move(row.priority, row.waits_for, None)
            self._fronts.leave(row, row.waits_for)
            self._left_queues.add(row.waits_for)

    def _note_triggered(self, due: _Due) -> None:
        """Record in the history that its trigger is satisfied, if not recorded before."""
        if due.row.triggered_at is None:
            since = due.triggered_at.isoformat()
            entry = line(self._store, due.schedule.name, "triggered", due.row.pending_id, says=due.trigger.text, since=since)
            self._entries.append(entry)

    def _write_triggered(self, due: _Due) -> None:
        """Write that its trigger is satisfied, before other immediate writes about the same run."""
        self._note_triggered(due)
        self._flush()
        if due.row.triggered_at is None:
            move(self._conn, due.row.pending_id, PendingState.TRIGGER, PendingState.CONSTRAINT, **due.moments)

    # --- writing --------------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        """Write the runs that continue to wait."""
        waiting, self._waiting = self._waiting, []
        lines, self._entries = self._entries, []
        write_lines(self._conn, lines)
        if not waiting:
            return
        in_front = self._move_in_queues(waiting)
        soon = self._ended_meanwhile({one.values["waits_for"] for one in waiting if one.row.pending_id in in_front})
        for one in waiting:
            if one.state is PendingState.CONSTRAINT and one.values["next_check_at"] is None:
                is_first, key = one.row.pending_id in in_front, one.values["waits_for"]
                pause = soon.get(key, RECHECK) if is_first else FALLBACK_CHECK_INTERVAL
                one.values["next_check_at"] = self._next_check(self._now + pause, one.values["expires_at"])
        write_all(self._conn, waiting)

    def _move_in_queues(self, waiting: Iterable[PendingWrite]) -> set[str]:
        """Enter these runs in their queues in order, and return the ids of those at the front."""
        self._fronts.read(one.values["waits_for"] for one in waiting if one.values["waits_for"] is not None)
        in_front = set[str]()
        for one in waiting:
            was, key = one.row.waits_for, one.values["waits_for"]
            if was not in (None, key):
                self._fronts.leave(one.row, was)
            if key is not None and self._fronts.enter(one.row, key):
                in_front.add(one.row.pending_id)
        return in_front

    def _ended_meanwhile(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return how soon to evaluate again the runs that wait for a run that has just ended."""
        dags: dict[str, Sequence[str]] = {}
        for key in keys:
            _, _, name = key.partition(":")
            if key == dag_wait_key(name):
                dags[key] = [name]
            elif key == group_wait_key(name):
                dags[key] = self._facts.members.get(name, ())
        return ended_meanwhile(self._conn, dags, self._snapshot.newest_event, self._now) if dags else {}

    def _finish(self) -> None:
        """Write the rest: runs that wait, runs to start, and the next runs of the queues that were left."""
        self._flush()
        write_all(self._conn, self._launch_writes)
        if self._reserved:
            self._reserve()
        wake_next(self._conn, self._left_queues, self._now, skip_locked=True)

    def _reserve(self) -> None:
        listed = listed_events(self._conn, [due.row.pending_id for due, _ in self._reserved])
        wanted = []
        for due, run_id in self._reserved:
            schedule, pending_id = due.schedule, due.row.pending_id
            missing = missing_inputs(schedule, due.counted.progress, self._now)
            why = {"schedule": schedule.name, "pending_id": pending_id, **listed[pending_id], "missing": missing}
            absorbs = schedule.backlog is LaunchBacklog.ONE
            wanted.append(Reservation(schedule, pending_id, run_id, why, absorbs))
        reserve_runs(self._conn, self._store, wanted)
        for due, _ in self._reserved:
            restart_periods(self._conn, self._store, due.schedule, due.counted.progress)


def _changes(
    reasons: tuple[Reason, ...], next_at: datetime | None, waits_for: str | None, counted: Counted | None
) -> dict[str, Any]:
    """Return the columns of an evaluated run."""
    sums = {} if counted is None else counted.to_row()
    return {"reasons": reasons_to_json(reasons), "next_check_at": next_at, "waits_for": waits_for, **sums}


def expiry(conn: sa.Connection, pending_id: str, schedule: Schedule, triggered_at: datetime, now: datetime) -> datetime:
    """Return when a pending run expires: the timeout after its trigger was satisfied.

    After an outage, events may be recorded long after they happened. If the timeout would have ended before the events that
    satisfied the trigger were recorded, it starts when they were.
    """
    expires_at = triggered_at + schedule.timeout.period
    if expires_at > now:
        return expires_at
    in_time = count_all(conn, pending_id, schedule, before=expires_at)
    if schedule.trigger.evaluate(in_time.progress, now).satisfied:
        return expires_at
    recorded = sa.select(sa.func.max(events.c.recorded_at)).join(pending_events, pending_events.c.event_id == events.c.id)
    last: datetime | None = conn.execute(recorded.where(pending_events.c.pending_id == pending_id)).scalar()
    return expires_at if last is None else last + schedule.timeout.period


def keep_of_expired(
    conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted, expires_at: datetime
) -> None:
    """Move the late events of a discarded run, and what its unmet triggers have collected, to a new pending run, due at once."""
    now, mine = store.clock(), pending_events.c.pending_id == row.pending_id
    late = sa.select(events.c.id).where(events.c.id == pending_events.c.event_id, events.c.recorded_at >= expires_at).exists()
    if conn.execute(sa.select(sa.literal(1)).where(sa.exists().where(mine, late))).first() is None:
        keep_unmet(conn, store, row, schedule, counted)
        return
    pending_id = _begin(conn, row, created_at=now, next_check_at=now, counted_to=0, progress={}, reasons=[])
    conn.execute(sa.update(pending_events).where(mine, late).values(pending_id=pending_id))
    in_time = count_all(conn, row.pending_id, schedule)
    _move_events(conn, row.pending_id, pending_id, _unmet(schedule, in_time, now))


def keep_unmet(conn: sa.Connection, store: Store, row: sa.Row[Any], schedule: Schedule, counted: Counted) -> None:
    """Begin a new pending run with what the unmet triggers of a discarded one have collected, if anything."""
    now = store.clock()
    unmet = _unmet(schedule, counted, now)
    if not unmet:
        return
    left = Counted(counted.leaves, {str(number): counted.sums[str(number)] for number in sorted(unmet)}, counted.upto)
    judgement = schedule.trigger.evaluate(left.progress, now)
    reason = Reason("trigger", judgement.text, met=False, not_before=judgement.next_at)
    next_at = now if judgement.satisfied else judgement.next_at
    pending_id = _begin(conn, row, created_at=now, next_check_at=next_at, reasons=reasons_to_json((reason,)), **left.to_row())
    _move_events(conn, row.pending_id, pending_id, unmet)
    note(conn, store, row.schedule, "progress_kept", pending_id, says=judgement.text)


def _begin(conn: sa.Connection, row: sa.Row[Any], **values: Any) -> str:
    """Begin another pending run of the same schedule, and return its id."""
    same = {name: getattr(row, name) for name in ("schedule", "generation", "dag_id", "priority")}
    new = {"pending_id": new_id(), "state": PendingState.TRIGGER.value}
    conn.execute(sa.insert(pending_jobs).values(**new, **same, **values))
    return new["pending_id"]


def _unmet(schedule: Schedule, counted: Counted, now: datetime) -> set[int]:
    """Return the numbers of the leaves that have collected something without satisfying the trigger."""
    spent = set(schedule.trigger.spent(counted.progress, now))
    return {number for number, leaf in enumerate(counted.leaves) if leaf not in spent and str(number) in counted.sums}


def _move_events(conn: sa.Connection, was: str, to: str, leaves: Collection[int]) -> None:
    theirs = sa.and_(pending_events.c.pending_id == was, pending_events.c.leaf.in_(leaves))
    conn.execute(sa.update(pending_events).where(theirs).values(pending_id=to))
