"""Hold the next jobs of a local Spark session until a test has done something.

    with held_jobs(spark, append):                               # the next job waits until ``append`` has returned
        engine.run(job, "rewrite_data_files")

    with held_jobs(spark, engine.interrupt, until_the_end=True):  # the next jobs wait until the block ends
        engine.run(job, "rewrite_data_files")

Sleeping tasks occupy every task slot, and Spark gives slots to jobs in the order in which they were submitted. So the job is
active and runs no task before the slots are free, however small its table is and however busy the machine is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event
from time import monotonic, sleep
from typing import TYPE_CHECKING
from uuid import uuid4

from bounded import PATIENCE_S, Beside

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POLL_INTERVAL_S = 0.01
LONGEST_SLEEP_MS = int(2 * PATIENCE_S * 1000)


@contextmanager
def held_jobs(spark: SparkSession, *actions: Callable[[], object], until_the_end: bool = False) -> Iterator[None]:
    """Call the first action while the first job of the block waits, the second one while the second job waits, and so on.

    :param until_the_end: whether the last of these jobs, and all jobs after it, wait until the block ends; without it a job
        continues when its action has returned.
    """
    hold = _Hold(spark, actions, until_the_end)
    acting = Beside(hold.act)
    try:
        yield
    finally:
        hold.over.set()
        acting.join()
    assert hold.done == len(actions), f"Spark ran {hold.done} of {len(actions)} expected jobs"


def active_jobs(spark: SparkSession) -> set[int]:
    """Return the ids of the active Spark jobs."""
    return set(spark.sparkContext.statusTracker().getActiveJobsIds())


class _Hold:
    def __init__(self, spark: SparkSession, actions: tuple[Callable[[], object], ...], until_the_end: bool) -> None:
        self.over, self.done = Event(), 0
        self._spark, self._actions, self._until_the_end = spark, actions, until_the_end
        self._seen = active_jobs(spark)
        self._slots = _OccupiedSlots(spark)

    def act(self) -> None:
        try:
            for action in self._actions:
                if self.done:
                    self._let_one_job_run()
                if not self._a_job_waits():
                    return
                action()
                self.done += 1
            if self._until_the_end:
                self.over.wait()
        finally:
            self._slots.free()

    def _let_one_job_run(self) -> None:
        """Free the slots for the job that waits, after occupying them again for the time after it."""
        before, self._slots = self._slots, _OccupiedSlots(self._spark)
        before.free()

    def _a_job_waits(self) -> bool:
        _wait_until(lambda: self.over.is_set() or self._waiting(), "a Spark job waits for the slots")
        waiting = self._waiting()
        self._seen |= waiting
        return bool(waiting)

    def _waiting(self) -> set[int]:
        return active_jobs(self._spark) - self._seen - self._slots.jobs()


class _OccupiedSlots:
    """A Spark job whose tasks sleep in all task slots."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._tag = spark, f"held-{uuid4().hex}"
        self._sleeping = Beside(self._sleep)
        _wait_until(self.jobs, "Spark has accepted the job that occupies the slots")

    def jobs(self) -> set[int]:
        return set(self._spark.sparkContext._jsc.sc().statusTracker().getJobIdsForTag(self._tag))

    def free(self) -> None:
        """Cancel the sleeping tasks, and return when Spark no longer reports their job as active."""
        self._spark.sparkContext.cancelJobsWithTag(self._tag)
        self._sleeping.join()
        _wait_until(lambda: not self.jobs() & active_jobs(self._spark), "the job that occupied the slots has ended")

    def _sleep(self) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        context = self._spark.sparkContext
        slots = context.defaultParallelism
        context.addJobTag(self._tag)
        context.setLocalProperty("spark.job.interruptOnCancel", "true")
        nap = f"java_method('java.lang.Thread', 'sleep', {LONGEST_SLEEP_MS}L)"
        try:
            self._spark.range(0, slots, 1, slots).selectExpr(nap).collect()
        except (Py4JError, PySparkException):
            return  # it was cancelled
        raise AssertionError("The slots were occupied for longer than any test may take")


def _wait_until(true: Callable[[], object], what: str) -> None:
    deadline = monotonic() + PATIENCE_S
    while not true():
        assert monotonic() < deadline, f"Never true: {what}"
        sleep(POLL_INTERVAL_S)
