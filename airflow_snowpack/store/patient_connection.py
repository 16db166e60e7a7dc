"""A connection to Postgres that does not wait for ever: psycopg itself waits for an answer as long as the socket stands."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any

import psycopg

from airflow_snowpack.store.patience import deadline


class PatientConnection(psycopg.Connection[Any]):
    """Ends the wait for an answer at the deadline of the present work, and itself with it: the answer may still come.

    :ivar behind_pooler: whether a pooler stands between it and Postgres, so that nothing may outlive a transaction.
    """

    behind_pooler = False

    def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
        end = deadline()
        return super().wait(gen if end is None else self._until(end, gen), *arguments, **options)

    def _until(self, end: float, gen: Any) -> Generator[Any, Any, Any]:
        # psycopg wakes its generators ten times a second, also when nothing has come.
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and time.monotonic() >= end:
                    self.pgconn.finish()
                    raise psycopg.OperationalError("the server did not answer in time")
                wanted = gen.send(ready)
        except StopIteration as done:
            return done.value
