"""An Airflow of which one kind of request hangs. It imports Airflow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from threading import Event

from bounded import PATIENCE_S

from airflow_snowpack.hooks.dag_runs import AirflowDagRuns, RunState
from airflow_snowpack.scheduling.airflow_port import NOT_YET, EndsFound, EndsQuery, Launch, NotStarted, Slots, Unavailable

PROBES = {"load": "stuck", "time": "well"}
"""Registered probes, by whether they hang."""


class PartlyStuck(AirflowDagRuns):
    """An Airflow with one kind of request that hangs, for the DAG or pool ``stuck``."""

    def __init__(self, hangs: str) -> None:
        super().__init__(patience=timedelta(milliseconds=20))
        self.hangs = hangs
        self.released = Event()
        self.started: list[str] = []

    def answer(self, request: str, names: Iterable[str]) -> None:
        assert not (request == self.hangs and "stuck" in names) or self.released.wait(PATIENCE_S)

    def is_paused(self, dag_id: str) -> bool | None:
        self.answer("is_paused", [dag_id])
        return False

    def trigger(self, launch: Launch) -> NotStarted | None:
        self.answer("trigger", [launch.dag_id])
        if launch.dag_id not in self.started:  # the attempt after an expired lease finds the run, as in Airflow
            self.started.append(launch.dag_id)
        return None

    def find(self, dag_id: str, run_id: str) -> RunState | None:
        return RunState("running", None)

    def count_active(self, dag_id: str, among: frozenset[str]) -> tuple[int, int]:
        self.answer("count_active", [dag_id])
        return 0, 0

    def ended_runs(self, asked: Sequence[EndsQuery]) -> Mapping[str, EndsFound]:
        self.answer("ended_runs", [one.dag_id for one in asked])
        return {}

    def free_slots(self, pools: Iterable[str]) -> Mapping[str, Slots]:
        return self._ask_each("pool", pools, self._slots)

    def _slots(self, pool: str) -> Slots:
        self.answer("free_slots", [pool])
        return 8

    def loads(self, probes: Iterable[str]) -> Mapping[str, float | Unavailable]:
        wanted = list(probes)
        return dict.fromkeys(wanted, NOT_YET) | self._ask_each("load", wanted, self._load)

    def _load(self, probe: str) -> float:
        self.answer("loads", [PROBES[probe]])
        return 0.1
