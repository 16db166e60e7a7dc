"""Ends what killed workers left running on Spark Connect servers, which are found by their Airflow connections.

jobs = Jobs(store, orphans=ConnectOrphans())
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

WAIT = timedelta(seconds=30)
"""How long one call waits for statements to end; the caller repeats it."""


class ConnectOrphans:
    """The sessions of job attempts on Spark Connect servers."""

    def end(self, server: str, job_id: str, attempts: Sequence[int]) -> None:
        """Interrupt what the attempts still run, wait until it has ended, and close their sessions.

        :param server: the id of an Airflow connection of the type ``spark_connect``.
        :raises ConnectionNotFound, UnsuitableConnection, IncompleteConnection: the connection cannot be used.
        :raises SparkUnavailable: the server does not answer, or something still runs.
        """
        from airflow_snowpack.hooks.iceberg_spark import connect_url
        from airflow_snowpack.spark import end_session, session_id_of

        url = connect_url(server)
        for attempt in attempts:
            end_session(url, session_id_of(job_id, attempt), within=WAIT)
