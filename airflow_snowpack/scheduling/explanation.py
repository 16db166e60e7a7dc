"""Why a schedule has not run: its trigger's progress, what each constraint says and until when, and what was launched last.

    print(explain(schedules, "page_views_nightly"))

It is told from the store as it is now, the events that no check has counted yet included. Nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.counting import count_events
from airflow_snowpack.scheduling.pending import OPEN, PendingJob, PendingState, Reason, pending_from
from airflow_snowpack.scheduling.schedules import Schedules, StoredSchedule
from airflow_snowpack.scheduling.trigger import Judgement
from airflow_snowpack.store.schedule_tables import launches, pending_jobs, schedule_clocks

LAST = 5


@dataclass(frozen=True, slots=True)
class Explanation:
    """What there is to say about a schedule.

    :param trigger: what its trigger is worth now.
    :param pending: the job that is on its way to a run, if there is one.
    :param launching: a job whose run is being started, and ``problem``: why that has not worked yet.
    :param next_tick: when its own clock comes next.
    :param ended: the newest jobs that were launched or discarded, newest first.
    """

    stored: StoredSchedule
    trigger: Judgement
    pending: PendingJob | None
    launching: PendingJob | None
    problem: str | None
    next_tick: datetime | None
    ended: tuple[PendingJob, ...]

    @property
    def blocked_by(self) -> tuple[Reason, ...]:
        """The constraints that keep a triggered run from starting."""
        reasons = self.pending.reasons if self.pending is not None else ()
        return tuple(reason for reason in reasons if not reason.met and reason.what != "trigger")

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def sentences(self) -> list[str]:
        """The same in words, one sentence a line."""
        schedule = self.stored.schedule
        if not self.stored.enabled:
            return [f"{schedule.name} is suspended: events do not count for it. Resume it to let them.", *self._endings()]
        lines = [f"{schedule.name} is enabled and starts {schedule.dag_id}."]
        lines.append(f"Its trigger is {'' if self.trigger.satisfied else 'not '}satisfied: {self.trigger.says}.")
        lines += self._launching() + self._waiting()
        if self.next_tick is not None:
            lines.append(f"Its clock comes next at {_text(self.next_tick)}.")
        return lines + self._endings()

    def _launching(self) -> list[str]:
        if self.launching is None:
            return []
        why = f", but that has not worked yet: {self.problem}" if self.problem else ""
        return [f"Run {self.launching.run_id} is being started{why}."]

    def _waiting(self) -> list[str]:
        if self.pending is None or self.pending.state is not PendingState.CONSTRAINT:
            return []
        lines = [
            f"It waits because {reason.says}" + (f", until {_text(reason.not_before)}." if reason.not_before else ".")
            for reason in self.blocked_by
        ]
        if self.pending.next_check_at is not None:
            lines.append(f"It is looked at next at {_text(self.pending.next_check_at)}.")
        if self.pending.expires_at is not None:
            then = self.stored.schedule.timeout.then
            lines.append(f"If it still waits at {_text(self.pending.expires_at)}, the timeout says: {then}.")
        return lines

    def _endings(self) -> list[str]:
        if not self.ended:
            return ["It has not launched yet."]
        return [_ending(job) for job in self.ended]


def explain(schedules: Schedules, name: str) -> Explanation:
    """Everything about one schedule.

    :raises ScheduleNotFound: there is none of this name.
    """
    stored = schedules.get(name)
    return schedules.store.read(lambda conn: _explain(conn, stored, schedules.store.clock()))


def _explain(conn: sa.Connection, stored: StoredSchedule, now: datetime) -> Explanation:
    mine = pending_jobs.c.schedule == stored.schedule.name
    current = sa.and_(mine, pending_jobs.c.generation == stored.generation)
    waiting = conn.execute(sa.select(pending_jobs).where(current, pending_jobs.c.state.in_(OPEN))).first()
    sent = sa.select(pending_jobs).where(current, pending_jobs.c.state == PendingState.LAUNCH.value)
    launching = conn.execute(sent.order_by(pending_jobs.c.created_at).limit(1)).first()
    over = sa.select(pending_jobs).where(mine, pending_jobs.c.ended_at.is_not(None))
    ended = conn.execute(over.order_by(pending_jobs.c.created_at.desc()).limit(LAST)).all()
    clock = sa.select(sa.func.min(schedule_clocks.c.next_at)).where(schedule_clocks.c.schedule == stored.schedule.name)
    progress = count_events(conn, waiting, stored.schedule).progress if waiting is not None else {}
    return Explanation(
        stored=stored,
        trigger=stored.schedule.trigger.judge(progress, now),
        pending=_pending(waiting),
        launching=_pending(launching),
        problem=None if launching is None else _problem(conn, launching.pending_id),
        next_tick=conn.execute(clock).scalar(),
        ended=tuple(pending_from(row) for row in ended),
    )


def _problem(conn: sa.Connection, pending_id: str) -> str | None:
    return conn.execute(sa.select(launches.c.problem).where(launches.c.pending_id == pending_id)).scalar()


def _pending(row: sa.Row[Any] | None) -> PendingJob | None:
    return None if row is None else pending_from(row)


def _ending(job: PendingJob) -> str:
    assert job.ended_at is not None, "only ended jobs are asked for"
    if job.state is PendingState.LAUNCHED:
        return f"{_text(job.ended_at)}: launched {job.run_id}."
    return f"{_text(job.ended_at)}: discarded, because {job.ended_because}."


def _text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S} UTC"
