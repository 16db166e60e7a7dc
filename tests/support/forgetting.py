"""Deletes at once what a scheduler deletes over many rounds, and ends a process's work at a statement as a kill would."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa

from airflow_snowpack.scheduling.retention import KEEP, retained
from airflow_snowpack.store import Store
from airflow_snowpack.store.retention import BATCH_SIZE, Pruner


def forget_old(store: Store, *, batch_size: int = BATCH_SIZE) -> int:
    """Delete what schedules no longer need; returns how many rows went."""
    pruner = Pruner(store, retained(store), older_than=KEEP, batch_size=batch_size)
    return pruner.run(sleep=lambda _seconds: None).total()


class Killed(BaseException):
    """The process ended here; no code of the package catches it, and the database rolls the open transaction back."""


@contextmanager
def killed_at(store: Store, place: int) -> Iterator[None]:
    """End the work right before the statement or the commit with this number."""
    met = 0

    def count() -> None:
        nonlocal met
        met += 1
        if met >= place:
            raise Killed

    def before_statement(_conn: Any, _cursor: Any, statement: str, *_: Any) -> None:
        if not statement.startswith("BEGIN"):  # SQLAlchemy would not know that a transaction is open
            count()

    def before_commit(_conn: Any) -> None:
        count()

    sa.event.listen(store.engine, "before_cursor_execute", before_statement)
    sa.event.listen(store.engine, "commit", before_commit)
    try:
        yield
    finally:
        sa.event.remove(store.engine, "before_cursor_execute", before_statement)
        sa.event.remove(store.engine, "commit", before_commit)
