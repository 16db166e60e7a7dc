"""Which errors end a task for good: those that a retry with the same arguments meets again.

    with refusals_are_final():
        request = MaintenanceRequest.parse(...)

Everything else (a locked table, a store or catalog that does not answer, drain mode) may be over at the next try, and
Airflow's own retries decide.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_snowpack.errors import SnowpackError


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """Turn refusals of the arguments into failures that Airflow does not retry."""
    from airflow_snowpack.builds.errors import BuildLeaseRanOut, LockLost

    try:
        yield
    except (LockLost, BuildLeaseRanOut):
        raise  # the run is whole, and still this task's
    except _refusals() as refused:
        raise AirflowFailException(str(refused)) from refused


def _refusals() -> tuple[type[SnowpackError], ...]:
    from airflow_snowpack.builds.errors import BuildNotFound, DatasetNotFound, InvalidBuild, InvalidKey, StaleBuild
    from airflow_snowpack.hooks.errors import (
        EmbeddedNotShared,
        IncompleteConnection,
        InvalidRetention,
        UnsuitableConnection,
        UnusableAddress,
        UnusableExtra,
    )
    from airflow_snowpack.iceberg.errors import InvalidTableName, WrongCatalog
    from airflow_snowpack.interim.map_reduce.errors import InvalidColumns, InvalidReduction, UnusableFunction
    from airflow_snowpack.jobs.errors import JobNotFound
    from airflow_snowpack.maintenance.errors import InvalidActionOrder, InvalidOption, NoActions, UnknownAction
    from airflow_snowpack.operators.rendered import UnreadableArgument
    from airflow_snowpack.scheduling.errors import InvalidSchedule
    from airflow_snowpack.settings import InvalidSetting

    return (
        InvalidTableName,
        WrongCatalog,
        UnknownAction,
        NoActions,
        InvalidOption,
        InvalidActionOrder,
        UnreadableArgument,
        InvalidSetting,
        UnsuitableConnection,
        IncompleteConnection,
        EmbeddedNotShared,
        UnusableAddress,
        UnusableExtra,
        InvalidRetention,
        JobNotFound,
        InvalidSchedule,
        InvalidBuild,
        InvalidKey,
        DatasetNotFound,
        BuildNotFound,
        InvalidColumns,
        InvalidReduction,
        UnusableFunction,
        StaleBuild,  # a retry would take the run from whoever has it now
    )
