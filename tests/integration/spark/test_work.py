"""Work on Spark ends when another thread says so."""

from __future__ import annotations

import signal
from collections.abc import Callable
from threading import main_thread
from time import monotonic, sleep
from typing import TYPE_CHECKING

import pytest
from bounded import PATIENCE_S, Beside
from py4j.protocol import Py4JError

from airflow_snowpack.spark import SessionStatements, SparkFailed, SparkInterrupted, SparkWork

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ENDLESS = "SELECT count(*) FROM range(0, 1000000000000, 1, 2) WHERE sqrt(id) % 2 = 0"


def wait_until_busy(spark: SparkSession, *, jobs: int = 1) -> None:
    """Wait until Spark has so many active jobs."""
    tracker, deadline = spark.sparkContext.statusTracker(), monotonic() + PATIENCE_S
    while len(tracker.getActiveJobsIds()) < jobs:
        assert monotonic() < deadline, f"Spark never had {jobs} active jobs"
        sleep(0.01)


def once_busy(spark: SparkSession, action: Callable[[], object], *, jobs: int = 1) -> Beside:
    """Do it as soon as Spark has so many active jobs."""

    def watch() -> None:
        wait_until_busy(spark, jobs=jobs)
        action()

    return Beside(watch)


def test_work_gives_what_the_call_gives(spark: SparkSession) -> None:
    assert SparkWork().run(spark, lambda: spark.range(3).count()) == 3


def test_an_endless_query_ends(spark: SparkSession) -> None:
    work = SparkWork()
    watching = once_busy(spark, work.interrupt)
    with pytest.raises(SparkInterrupted):
        work.run(spark, lambda: spark.sql(ENDLESS).collect())
    watching.join()
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_a_call_that_swallows_one_cancel_meets_the_next(spark: SparkSession) -> None:
    work = SparkWork()
    cancelled: list[Py4JError] = []

    def stubborn() -> None:
        for _ in range(3):
            try:
                spark.sql(ENDLESS).collect()
            except Py4JError as error:
                cancelled.append(error)

    watching = once_busy(spark, work.interrupt)
    with pytest.raises(SparkInterrupted):
        work.run(spark, stubborn)
    watching.join()
    assert len(cancelled) == 3


def test_an_interrupt_between_two_jobs_reaches_the_next_job(spark: SparkSession) -> None:
    work = SparkWork()

    def idle_and_then_busy() -> None:
        work.interrupt()
        spark.sql(ENDLESS).collect()

    with pytest.raises(SparkInterrupted):
        work.run(spark, idle_and_then_busy)


def test_interrupted_work_starts_nothing_more_and_may_be_interrupted_again(spark: SparkSession) -> None:
    work = SparkWork()
    work.interrupt()
    work.interrupt()
    started: list[int] = []
    with pytest.raises(SparkInterrupted):
        work.run(spark, lambda: started.append(1))
    assert work.interrupted
    assert started == []


def test_other_work_in_the_same_session_goes_on(spark: SparkSession) -> None:
    stopped, other = SparkWork(), SparkWork()
    answers: list[int] = []

    def count_beside_it() -> int:
        wait_until_busy(spark)
        return spark.range(100).count()

    beside = Beside(lambda: answers.append(other.run(spark, count_beside_it)))
    watching = once_busy(spark, stopped.interrupt, jobs=2)
    with pytest.raises(SparkInterrupted):
        stopped.run(spark, lambda: spark.sql(ENDLESS).collect())
    watching.join()
    beside.join()
    assert answers == [100]


def test_a_signal_handler_of_the_waiting_thread_may_interrupt(spark: SparkSession) -> None:
    work = SparkWork()
    before = signal.signal(signal.SIGUSR1, lambda *_: work.interrupt())
    try:
        ident = main_thread().ident
        assert ident is not None
        watching = once_busy(spark, lambda: signal.pthread_kill(ident, signal.SIGUSR1))
        with pytest.raises(SparkInterrupted):
            work.run(spark, lambda: spark.sql(ENDLESS).collect())
        watching.join()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_failure_tells_the_whole_chain_of_java_causes(spark: SparkSession) -> None:
    with pytest.raises(SparkFailed) as failure:
        SparkWork().run(spark, lambda: spark.sql("CALL lake.system.rewrite_data_files(table => 'lake.db.not_there')"))
    assert str(failure.value).startswith("RuntimeException: Couldn't load table 'db.not_there' in catalog 'lake'; caused by ")
    assert failure.value.causes[-1].short_name == "NoSuchTableException"


def test_what_is_not_sparks_error_comes_through_as_it_is(spark: SparkSession) -> None:
    with pytest.raises(ZeroDivisionError):
        SparkWork().run(spark, lambda: 1 / 0)


def test_jobs_are_counted_for_this_work_only(spark: SparkSession) -> None:
    work = SparkWork()
    spark.range(3).count()
    assert work.jobs_run(SessionStatements(spark)) == 0
    work.run(spark, lambda: spark.range(3).collect())
    assert work.jobs_run(SessionStatements(spark)) == 1
