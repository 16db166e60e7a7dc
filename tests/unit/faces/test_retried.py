"""Which ends of a job Airflow retries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_snowpack.builds.errors import BuildLeaseRanOut, StaleBuild
from airflow_snowpack.jobs import JobStatus, LeaseRanOut, StaleAttempt

NOW = datetime(2026, 11, 22, 9, 0, tzinfo=UTC)


@pytest.mark.parametrize("end", [LeaseRanOut("job", "attempt", NOW), BuildLeaseRanOut("the run r1 of flights")])
def test_a_lease_that_ran_out_is_retried(end: Exception) -> None:
    from airflow_snowpack.operators.base import refusals_are_final

    with pytest.raises(type(end)), refusals_are_final():
        raise end


def test_a_build_that_another_attempt_has_taken_over_is_not_retried() -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    from airflow_snowpack.operators.base import refusals_are_final

    with pytest.raises(AirflowFailException), refusals_are_final():
        raise StaleBuild("the run r1 of flights")


@pytest.mark.parametrize("status", JobStatus)
def test_an_attempt_that_was_replaced_is_retried_only_when_its_job_waits_again(status: JobStatus) -> None:
    from airflow.providers.common.compat.sdk import AirflowException, AirflowFailException

    from airflow_snowpack.operators.jobs import replaced

    end = AirflowException if status is JobStatus.PENDING else AirflowFailException
    assert type(replaced(StaleAttempt("job", "attempt", status))) is end
