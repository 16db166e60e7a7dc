"""The events of jobs, written best-effort.

A job's row is the truth, written in its transaction; the history is for display. A history that cannot be written is logged and
never fails the work. A background thread writes in batches, so that a busy worker pays one statement for many events, and exits
when nothing is left to write. :meth:`History.flush` writes the rest before a process ends. All heartbeats of an attempt are one
entry with their number and the time of the last one: an attempt that runs for a day sends 1,440.

    history.record(job_id, "claimed", attempt_id, worker="w1")
    history.of(job_id)
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.jobs.model import ActionResult, Claim, HistoryEntry
from airflow_snowpack.lineage import Operation, OperationKind, TableAt, note_operation
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store import Store, StoreError, repeatable, row_mapper, storable, storable_error
from airflow_snowpack.store.tables.jobs import job_history

log = logging.getLogger(__name__)

BATCH_SECONDS = 0.2
HEARTBEAT = "heartbeat"
GOES_ON = frozenset({HEARTBEAT, "action"})
"""Events after which an attempt may send further heartbeats."""


def _insert_batch() -> Any:
    """Return the insert of a whole batch as one parameter: on Postgres half the cost of a row at a time."""
    typed = [sa.column(name, job_history.c[name].type) for name in ("job_id", "at", "event", "attempt_id", "detail")]
    rows = sa.func.json_to_recordset(sa.bindparam("rows", type_=sa.JSON)).table_valued(*typed).render_derived(with_types=True)
    return sa.insert(job_history).from_select([column.name for column in typed], sa.select(rows))


INSERT_BATCH = _insert_batch()
entry_from = row_mapper(HistoryEntry)


class History:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._pending: list[dict[str, Any]] = []
        self._beats: dict[str, dict[str, Any]] = {}
        self._guard = threading.RLock()  # a signal handler may record an event while its thread does
        self._writing = threading.Lock()
        self._writer: threading.Thread | None = None
        self._closed = threading.Event()
        self._problem = Recurring(log)

    def record(self, job_id: str, event: str, attempt_id: str | None = None, **detail: Any) -> None:
        """Record an event; the background thread writes it shortly afterwards."""
        kept = {name: storable_error(value) if isinstance(value, str) else value for name, value in detail.items()}
        entry = {"job_id": job_id, "at": self._store.clock(), "event": event, "attempt_id": attempt_id, "detail": kept}
        with self._guard:
            self._pending.append(self._counted(entry) if event == HEARTBEAT else entry)
            if event not in GOES_ON:
                self._beats.pop(attempt_id or "", None)
            if self._writer is None or not self._writer.is_alive():  # also after a fork, which does not copy threads
                self._start_writer()

    def _start_writer(self) -> None:
        writer = threading.Thread(target=self._write_in_batches, name="snowpack-history", daemon=True)
        try:
            writer.start()
        except RuntimeError as error:  # no further thread can be started; the next event or flush writes this one too
            log.debug("history_not_written yet: %s", error)
        else:
            self._writer = writer

    def _counted(self, beat: dict[str, Any]) -> dict[str, Any]:
        """Return the entry of all heartbeats of an attempt so far, dated at the first."""
        before = self._beats.get(beat["attempt_id"])
        detail = {"count": 1 if before is None else before["detail"]["count"] + 1, "last_at": beat["at"].isoformat()}
        counted = {**(before or beat), "detail": detail}
        self._beats[beat["attempt_id"]] = counted
        return counted

    def flush(self) -> None:
        """Write what is pending in this thread."""
        with self._writing:
            with self._guard:
                batch, self._pending = self._pending, []
            if not batch:
                return
            try:
                self._write(batch)
            except (SQLAlchemyError, StoreError) as error:
                self._problem.failed(error, "history_not_written: %d events of jobs were lost", len(batch))
            else:
                self._problem.passed()

    def close(self) -> None:
        """Write what is pending and stop the background thread."""
        self._closed.set()
        self.flush()

    def of(self, job_id: str) -> list[HistoryEntry]:
        """Return the events of one job, oldest first."""
        self.flush()
        query = (
            sa.select(job_history).where(job_history.c.job_id == storable(job_id)).order_by(job_history.c.at, job_history.c.id)
        )
        return [entry_from(row) for row in self._store.all(query)]

    def _write(self, batch: list[dict[str, Any]]) -> None:
        beats = {entry["attempt_id"]: entry for entry in batch if entry["event"] == HEARTBEAT}
        events = [entry for entry in batch if entry["event"] != HEARTBEAT]
        if events:
            self._append(events)
        if beats:
            self._store.transact(lambda conn: _keep_beats(conn, beats.values()))

    def _append(self, batch: list[dict[str, Any]]) -> None:
        ours = sa.and_(*(job_history.c[name] == batch[0][name] for name in ("job_id", "at", "event")))

        def write(conn: sa.Connection) -> object:
            if not self._store.is_postgres:
                return conn.execute(sa.insert(job_history), batch)
            return conn.execute(INSERT_BATCH, {"rows": [{**entry, "at": entry["at"].isoformat()} for entry in batch]})

        once = repeatable(write, lambda conn: conn.execute(sa.select(job_history.c.id).where(ours)).first())
        (self._store.single if self._store.is_postgres else self._store.transact)(once)

    def _write_in_batches(self) -> None:
        while True:
            self._closed.wait(BATCH_SECONDS)  # let a batch gather
            self.flush()
            with self._guard:
                if not self._pending:
                    self._writer = None
                    return


def _keep_beats(conn: sa.Connection, entries: Iterable[dict[str, Any]]) -> None:
    """Update the heartbeat entry of each attempt, or insert the first one."""
    for entry in entries:
        same = sa.and_(*(job_history.c[name] == entry[name] for name in ("job_id", "event", "attempt_id")))
        if not conn.execute(sa.update(job_history).where(same).values(detail=entry["detail"])).rowcount:
            conn.execute(sa.insert(job_history), entry)


def record_change(store: Store, claim: Claim, result: ActionResult) -> None:
    """Record in the lineage what an action changed in its table, if anything; a failure is logged.

    Recorded when the action ends, not with the terminal write: its commits are in the table, whichever process ends the job.
    """
    if result.change is None:
        return
    table, catalog_id, change = str(claim.job.table), claim.job.table.catalog_id, result.change
    detail = {"action": result.action, "outcome": result.outcome.value, "message": result.message}
    operation = Operation(
        OperationKind.MAINTENANCE,
        store.clock(),
        inputs=(TableAt(table, change.before, change.location),),
        outputs=(TableAt(table, change.after, change.location),),
        task=TaskRef.parse(claim.worker_id) or TaskRef.parse(claim.job.owner),
        job_id=claim.job.job_id,
        detail=detail | ({"catalog_id": catalog_id} if catalog_id else {}),
    )
    note_operation(store, operation)
