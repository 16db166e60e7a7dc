"""Ends what the store still has for tasks that Airflow has ended.

    report = sweep(hook.installation, TaskRunStates())

A task that waits in the triggerer has no process. When Airflow ends it, its trigger cancels its job, but only while a triggerer
runs the trigger: a task that is marked or cleared right after it deferred leaves its job, and the job leaves the table locked.
The sweep therefore queries Airflow for the tasks that own jobs, runs at gates and passes, and for the DAG runs that hold locks of
tables. What a running process owns has a lease, which ends with the process.

The invariant: nothing is ended unless Airflow itself reports the end of its task. If a job is cancelled although its task has
just begun a new try, that try submits it again.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.hooks.errors import AirflowUnreachable
from airflow_snowpack.installation import Installation
from airflow_snowpack.interim.collection.model import DagRunState, RunPhase, RunQuery, RunStates
from airflow_snowpack.jobs import Job, JobAlreadyFinished, JobNotFound, JobRunsInTask, Jobs, SweepReport, TableLock
from airflow_snowpack.maintenance.fleet.model import Pass
from airflow_snowpack.maintenance.fleet.progress import PassWork
from airflow_snowpack.scheduling.pending_runs.gated_runs import end_gate, unseen_at_gates
from airflow_snowpack.scheduling.pending_runs.wait_queue import GONE
from airflow_snowpack.store import Actor

DagRunKey = tuple[str, str]

log = logging.getLogger(__name__)


def sweep(installation: Installation, states: RunStates | None, actor: Actor | None = None) -> SweepReport:
    """Sweep the jobs of dead workers, then end what ended tasks have left. While Airflow does not answer, that is kept.

    :param states: ``None`` if Airflow cannot be queried.
    :param actor: for the audit trail.
    """
    report = installation.jobs.sweep(actor=actor)
    if states is None or report.paused:
        return report
    try:
        cancelled, unlocked = end_abandoned(installation, states, actor)
    except AirflowUnreachable as problem:
        log.warning("What ended tasks have left stays until the next sweep: %s", problem)
        return report
    return replace(report, cancelled=cancelled, unlocked=report.unlocked + unlocked)


def end_abandoned(
    installation: Installation, states: RunStates, actor: Actor | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Cancel the jobs, end the waits at gates and the passes, and release the locks whose tasks or runs have ended in Airflow.

    :param states: of the Airflow that ran the tasks; another one would report their runs as deleted.
    :param actor: for the audit trail.
    :returns: the ids of the cancelled jobs, and the unlocked tables.
    :raises AirflowUnreachable: Airflow does not answer; nothing was ended.
    """
    store = installation.store
    now = store.clock()
    gates = [(TaskRef.parse(str(run.place)), run) for run in store.read(lambda conn: unseen_at_gates(conn, now - GONE))]
    jobs = [(TaskRef.parse(job.owner), job) for job in installation.jobs.awaited()]
    passes = [(TaskRef.parse(each.owner), each) for each in installation.fleet_passes.open()]
    locks = [(run, lock) for lock in installation.locks.list() if (run := _run_of_holder(lock.holder)) is not None]
    tasks = TaskStates({task for task, _ in (*gates, *jobs, *passes) if task is not None}, states, {run for run, _ in locks})
    for place in [run.place for task, run in gates if tasks.end_of(task) is not None]:
        store.transact(partial(end_gate, place=place, as_of=now))
    _end_passes(installation, [each for task, each in passes if tasks.is_run_over(task)])
    unlocked = [lock for run, lock in locks if tasks.has_run_ended(run) and _unlock(installation, lock, actor)]
    cancelled = [job.job_id for task, job in jobs if _cancel(installation.jobs, job, tasks.end_of(task))]
    return tuple(cancelled), tuple(str(lock.table) for lock in unlocked)


class TaskStates:
    """The states of some task instances and DAG runs, as Airflow reported them at one moment."""

    def __init__(self, tasks: Collection[TaskRef], states: RunStates, runs: Collection[DagRunKey] = ()) -> None:
        wanted: defaultdict[DagRunKey, set[str]] = defaultdict(set, {run: set() for run in runs})
        for task in tasks:
            wanted[task.dag_id, task.run_id].add(task.task_id)
        queries = [RunQuery(dag_id, run_id, frozenset(task_ids)) for (dag_id, run_id), task_ids in wanted.items()]
        self._runs = states.read(queries) if queries else {}

    def end_of(self, task: TaskRef | None) -> str | None:
        """Return how a task instance ended, for people; ``None`` if it has not ended, or could not be read.

        A cleared instance has ended too: it runs again, but perhaps not for hours.
        """
        run = self._run_of(task)
        if task is None or run is None:
            return None
        if run.phase is RunPhase.GONE:
            return "was deleted with its DAG run"
        state = run.tasks.get(task.task_id, {}).get(task.map_index)
        if run.has_ended(task.task_id, task.map_index):
            return f"ended as {state}" if state else "ended with its DAG run"
        return None if state else "was cleared"

    def is_run_over(self, task: TaskRef | None) -> bool:
        """Return whether the run of a task instance has ended or was deleted."""
        run = self._run_of(task)
        return run is not None and not run.is_active

    def has_run_ended(self, run: DagRunKey) -> bool:
        """Return whether Airflow has this run and reports it as ended. It has none for a user's own name."""
        found = self._runs.get(run)
        return found is not None and found.phase is RunPhase.OVER

    def _run_of(self, task: TaskRef | None) -> DagRunState | None:
        return None if task is None else self._runs.get((task.dag_id, task.run_id))


def _run_of_holder(holder: str) -> DagRunKey | None:
    """Return the DAG run of ``dag/run``, a form that a user's name may have, too; ``None`` for others, such as a job."""
    dag_id, _, run_id = holder.partition("/")
    return (dag_id, run_id) if dag_id and run_id else None


def _unlock(installation: Installation, lock: TableLock, actor: Actor | None) -> bool:
    """Release the lock, unless the run was cleared and has locked the table again."""
    if not installation.locks.release(lock.table, lock.holder, actor=actor, expires_at=lock.expires_at):
        return False
    log.warning("The table %s was unlocked, because its holder, the DAG run %s, has ended.", lock.table, lock.holder)
    return True


def _cancel(jobs: Jobs, job: Job, end: str | None) -> bool:
    if end is None:
        return False
    try:
        # By its owner: a new try of the task that finds its own job cancelled submits it again.
        jobs.cancel(job.job_id, by=job.owner, unless_inline=True, reason=f"Its task {end}.")
    except (JobAlreadyFinished, JobNotFound, JobRunsInTask):
        return False
    log.warning("Job %s was cancelled, because its task %s %s.", job.job_id, job.owner, end)
    return True


def _end_passes(installation: Installation, passes: Sequence[Pass]) -> None:
    work = PassWork(installation.fleet_passes, installation.jobs)
    for each in passes:
        log.warning("Pass %s of %s was left open; it ends now, because its DAG run has ended.", each.pass_id, each.owner)
        work.end(each)
