"""Which errors fail a task without a retry: those that the next attempt would meet again.

    with refusals_are_final():
        request = MaintenanceRequest.parse(...)

Airflow's own retries apply to everything else, such as a locked table or a store that does not answer.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowFailException

from airflow_snowpack.errors import Kind, SnowpackError

if TYPE_CHECKING:
    from collections.abc import Iterator

RETRIED = {
    Kind.INVALID: False,
    Kind.NOT_FOUND: False,
    Kind.CONFLICT: True,
    Kind.REFUSED: False,
    Kind.FORBIDDEN: False,
    Kind.UNAVAILABLE: True,
    Kind.DAMAGED: True,
    Kind.MISCONFIGURED: False,
    Kind.FAILED: True,
}


@contextmanager
def refusals_are_final() -> Iterator[None]:
    """Raise an ``AirflowFailException``, which Airflow does not retry, for an error that a retry would meet again."""
    try:
        yield
    except SnowpackError as error:
        if is_retried(error):
            raise
        raise AirflowFailException(str(error)) from error


def is_retried(error: SnowpackError) -> bool:
    """Return whether another attempt at the task may succeed."""
    from airflow_snowpack.builds.errors import NothingPublished
    from airflow_snowpack.iceberg.errors import TableNotFound
    from airflow_snowpack.interim.errors import InterimTableNotFound

    # Another task may create what is missing before the next attempt.
    return RETRIED[error.kind] or isinstance(error, TableNotFound | InterimTableNotFound | NothingPublished)
