"""A dataset's lock: one at a time publishes, rolls back or cleans up.

    with take_lock(store, policy, "flights", "dag/run/publish", wait=policy.lock_wait) as lock:
        lock.check()                       # right before each step that others could see
        storage.write(layout.CURRENT, …)

It is a lease on the dataset's row. A heartbeat renews it, and a lock whose holder was killed is free once the lease has run out.
The invariant: whatever is written to the registry under the lock carries its ``attempt_id``, so that a holder that was taken for
dead, and was not, changes nothing any more.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

import sqlalchemy as sa

from airflow_snowpack.builds.errors import DatasetBusy, DatasetNotFound, LockLost
from airflow_snowpack.builds.registry.heartbeat import Heartbeat
from airflow_snowpack.builds.registry.model import BuildPolicy
from airflow_snowpack.store import IdMaker, Leases, Store, StoreTooSlow, StoreUnreachable, new_id, repeatable, storable
from airflow_snowpack.store.build_tables import build_datasets

log = logging.getLogger(__name__)

LOCKS = Leases(build_datasets, key=build_datasets.c.dataset, order=build_datasets.c.created_at)
LOOK_AGAIN = timedelta(seconds=1)


class DatasetLock:
    """The lock, while it is held; a context manager that keeps it alive and lets go of it at the end.

    :ivar attempt_id: the fence.
    """

    def __init__(self, store: Store, policy: BuildPolicy, dataset: str, attempt_id: str) -> None:
        self.store = store
        self.policy = policy
        self.dataset = dataset
        self.attempt_id = attempt_id
        self._what = f"the dataset {dataset}"
        self._beat = Heartbeat(self._renew, every=policy.heartbeat, lease=policy.lock_lease, what=self._what)

    def check(self) -> None:
        """Make sure that the lock is ours, for a whole lease from now on.

        :raises LockLost: somebody else has taken it.
        """
        if self._beat.lost or not self._renew():
            raise LockLost(self._what)

    def holds(self, conn: sa.Connection) -> None:
        """Within a transaction: keep everybody else from taking the lock until it ends.

        :raises LockLost: somebody else has taken it.
        """
        until = self.store.clock() + self.policy.lock_lease
        if not LOCKS.renew(conn, self.dataset, self.attempt_id, until):
            raise LockLost(self._what)

    def _renew(self) -> bool:
        until = self.store.clock() + self.policy.lock_lease
        return self.store.transact(lambda conn: LOCKS.renew(conn, self.dataset, self.attempt_id, until))

    def __enter__(self) -> Self:
        self._beat.__enter__()
        return self

    def __exit__(self, *exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._beat.__exit__(*exc)
        now = self.store.clock()
        try:
            self.store.transact(lambda conn: LOCKS.give_back(conn, self.dataset, self.attempt_id, now))
        except (StoreUnreachable, StoreTooSlow):
            log.warning("lock_not_released: %s stays locked until its lease runs out", self._what, exc_info=True)


def take_lock(
    store: Store,
    policy: BuildPolicy,
    dataset: str,
    holder: str,
    *,
    wait: timedelta,
    make_id: IdMaker = new_id,
    sleep: Callable[[float], None] = time.sleep,
) -> DatasetLock:
    """Take a dataset's lock.

    :param holder: for people who look.
    :param wait: for how long to wait while somebody else has it.
    :raises DatasetNotFound: nothing was ever built under this name.
    :raises DatasetBusy: somebody else has it still.
    """
    waited = timedelta(0)
    while True:
        try:
            return _take(store, policy, dataset, holder, make_id())
        except DatasetBusy:
            if waited >= wait:
                raise
        sleep(LOOK_AGAIN.total_seconds())
        waited += LOOK_AGAIN


def _take(store: Store, policy: BuildPolicy, dataset: str, holder: str, attempt_id: str) -> DatasetLock:
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
    return DatasetLock(store, policy, name, attempt_id)
