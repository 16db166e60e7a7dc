"""The lock of a dataset: only one process at a time publishes, rolls back or cleans up.

    with registry.lock("flights", "dag/run/publish", wait=registry.policy.lock_wait) as lock:
        lock.check()                       # immediately before each step that others can see
        storage.write(layout.CURRENT, …)

The lock is a lease on the dataset's row, renewed by a heartbeat; after a crash, the dataset is free once the lease has expired.
Invariant: each write to the registry under the lock names its ``attempt_id``, so a process that lost the lock changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from airflow_snowpack.builds.errors import DatasetBusy, DatasetNotFound, LockLost
from airflow_snowpack.builds.registry.model import BuildPolicy
from airflow_snowpack.store import Leases, Store, StoreTooSlow, StoreUnreachable, repeatable, storable
from airflow_snowpack.store.keep_alive import KeepAlive
from airflow_snowpack.store.tables.builds import build_datasets

log = logging.getLogger(__name__)

LOCKS = Leases(build_datasets, key=build_datasets.c.dataset, order=[build_datasets.c.created_at])


class DatasetLock:
    """A lock that this process holds, fenced by ``attempt_id``; the context manager renews it and finally releases it."""

    def __init__(self, store: Store, policy: BuildPolicy, dataset: str, attempt_id: str, sleep: Callable[[float], None]) -> None:
        self.store = store
        self.policy = policy
        self.dataset = dataset
        self.attempt_id = attempt_id
        self.sleep = sleep
        self._what = f"the dataset {dataset}"
        self._lease = KeepAlive(self._renew, every=policy.heartbeat, lost_after=policy.lock_lease, what=self._what)

    def check(self) -> None:
        """Renew the lock for a whole lease, or raise :class:`LockLost` if another process has it."""
        if self._lease.lost is not None or not self._renew():
            raise LockLost(self._what)

    def renew_in(self, conn: sa.Connection) -> None:
        """Renew the lock in a transaction, until whose end no other process can take it, or raise :class:`LockLost`."""
        if not self._renew_row(conn):
            raise LockLost(self._what)

    def _renew(self) -> bool:
        return self.store.transact(self._renew_row)

    def _renew_row(self, conn: sa.Connection) -> bool:
        until = self.store.clock() + self.policy.lock_lease
        return LOCKS.renew(conn, self.dataset, self.attempt_id, until)

    def __enter__(self) -> Self:
        self._lease.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._lease.__exit__(*exc)
        now = self.store.clock()
        try:
            self.store.transact(lambda conn: LOCKS.give_back(conn, self.dataset, self.attempt_id, now))
        except (StoreUnreachable, StoreTooSlow):
            log.warning("lock_not_released: %s stays locked until its lease expires", self._what, exc_info=True)


def take_lock(
    store: Store, policy: BuildPolicy, dataset: str, holder: str, attempt_id: str, sleep: Callable[[float], None]
) -> DatasetLock:
    """Take a dataset's lock, without waiting; see :meth:`BuildRegistry.lock`."""
    now = store.clock()
    row = build_datasets.c
    name = storable(dataset)
    locked = sa.select(row.claimed_at, row.claimed_by, row.visible_at).where(row.dataset == name).with_for_update()
    values = LOCKS.claim_values(storable(holder), attempt_id, now, now + policy.lock_lease, key=name)

    def take(conn: sa.Connection) -> bool:
        found = conn.execute(locked).first()
        if found is None:
            raise DatasetNotFound(dataset)
        if found.claimed_at is not None and found.visible_at > now:
            raise DatasetBusy(dataset, found.claimed_by, found.visible_at)
        return conn.execute(LOCKS.take_over, values).first() is not None

    store.transact(repeatable(take, lambda conn: LOCKS.holds(conn, name, attempt_id)))
    return DatasetLock(store, policy, name, attempt_id, sleep)
