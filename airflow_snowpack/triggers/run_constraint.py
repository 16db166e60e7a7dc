"""Fires when a run that waits at a gate may be able to go on, or when there is no time left to wait.

The event is a nudge: the sensor asks the constraints, which it can and the triggerer cannot, since they ask Airflow.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.triggers.base import BaseTrigger

from airflow_snowpack.errors import SnowpackError
from airflow_snowpack.recurring import Recurring
from airflow_snowpack.triggers.event import event_of
from airflow_snowpack.triggers.settling import Settling
from airflow_snowpack.triggers.shared_reads import next_round
from airflow_snowpack.triggers.shared_store import StoreReads, one_by_one

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from airflow.triggers.base import TriggerEvent

    from airflow_snowpack.scheduling import GatePlace, Line
    from airflow_snowpack.scheduling.constraints.constraint import Constraint
    from airflow_snowpack.store import Store

log = logging.getLogger(__name__)

LOOK_S = 5.0
NAP_S = 60.0
"""A clock that is set, or a machine that slept, is noticed after so long."""


class RunConstraintTrigger(BaseTrigger):
    """Waits for the moment that the constraints named or, where they named none, for a place in their line.

    :param constraints: as JSON.
    :param not_before: nothing is looked at before this moment, as ISO 8601 text; ``until``: how long the run may wait.
    :param recheck_seconds: how often the first in the line is called when nothing was told.
    """

    def __init__(
        self,
        dag_id: str,
        run_id: str,
        task: str,
        constraints: list[dict[str, Any]],
        until: str,
        not_before: str | None = None,
        store_conn_id: str | None = None,
        recheck_seconds: float = 30.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Airflow's is untyped
        self.dag_id = dag_id
        self.run_id = run_id
        self.task_key = task
        self.constraints = constraints
        self.until = until
        self.not_before = not_before
        self.store_conn_id = store_conn_id
        self.recheck_seconds = recheck_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The trigger as Airflow keeps it."""
        names = ("dag_id", "run_id", "constraints", "until", "not_before", "store_conn_id", "recheck_seconds")
        arguments = {name: getattr(self, name) for name in names} | {"task": self.task_key}
        return "airflow_snowpack.triggers.run_constraint.RunConstraintTrigger", arguments

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event: ``called``, or ``over``."""
        from airflow_snowpack.store import StoreUnreachable, utc_now

        until = datetime.fromisoformat(self.until)
        named = min(until, datetime.fromisoformat(self.not_before)) if self.not_before else None
        await Settling().rest()
        while named is not None and utc_now() < named:
            await asyncio.sleep(min(NAP_S, (named - utc_now()).total_seconds()))
        waiting, store = self._waiting(), StoreReads(self.store_conn_id)
        failing = Recurring(log)
        while utc_now() < until:
            try:
                if named is not None or await store.get(_called, waiting):
                    yield event_of({"why": "called"})
                    return
                failing.passed()
            except StoreUnreachable:
                pass  # one line for all triggers is in the log
            except SnowpackError as problem:
                failing.failed(problem, "Still waiting at the gate")
            await next_round(min(LOOK_S, self.recheck_seconds), max(0.1, (until - utc_now()).total_seconds()))
        yield event_of({"why": "over"})

    def _waiting(self) -> _Waiting:
        from airflow_snowpack.scheduling import GatePlace, parse_constraints

        place = GatePlace(self.dag_id, self.run_id, self.task_key)
        return _Waiting(place, parse_constraints(self.constraints), timedelta(seconds=self.recheck_seconds))


@dataclass(slots=True, eq=False)
class _Waiting:
    """A run that waits at a gate."""

    place: GatePlace
    constraints: Sequence[Constraint]
    recheck: timedelta
    _line: Line | None = None

    def line(self, store: Store) -> Line:
        """Its place in the line, which remembers the look before."""
        from airflow_snowpack.scheduling import Line

        self._line = self._line or Line(store, self.place, self.constraints, recheck=self.recheck)
        return self._line


def _called(store: Store, waiting: frozenset[_Waiting]) -> dict[_Waiting, bool | Exception]:
    """Whether it is time for each to look: one after the other, on one connection."""
    return one_by_one(waiting, lambda each: each.line(store).calls())
