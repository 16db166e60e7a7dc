"""Keeps the inventory fresh from the background of a process that answers questions about it."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from airflow_snowpack.inventory.inventory import REFRESH_EVERY, Inventory
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.store.signs_of_life import SignOfLife

log = logging.getLogger(__name__)


class Refresher:
    """Refreshes at once and then on a period; of several processes that share a store, one does it each time.

    :param every: the period.
    :param sign: the sign of life of this process, reported at each look.
    """

    def __init__(self, inventory: Inventory, every: timedelta = REFRESH_EVERY, sign: SignOfLife | None = None) -> None:
        self._inventory = inventory
        self._every = every
        self._sign = sign
        self._problem = Recurring(log)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="snowpack-inventory", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread; a listing that is under way is left alone."""
        self._stopped.set()

    def step(self) -> None:
        """One look; whatever goes wrong is logged, and a later look may mend it: the thread must not end with it."""
        try:
            self._inventory.refresh_if_older(self._every)
        except Exception as problem:  # noqa: BLE001 - whatever it is, it is logged, and the thread goes on
            self._problem.failed(problem, "inventory_not_refreshed")
        else:
            self._problem.passed()
        if self._sign is not None:
            self._sign.beat()

    def _run(self) -> None:
        while not self._stopped.is_set():
            self.step()
            self._stopped.wait(self._every.total_seconds() / 4)
