"""Load probes are registered by the installation; what a request or the store contains can only name one."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from bounded import PATIENCE_S

from airflow_snowpack.hooks.load_probes import measure
from airflow_snowpack.scheduling import ClusterLoad, CustomEvents, InvalidSchedule, Schedule, explain, sync
from airflow_snowpack.scheduling.airflow_port import Unavailable
from airflow_snowpack.store.tables.schedules import schedules
from airflow_snowpack.timed_calls import TimedCalls

GO = CustomEvents("go")
CODE = "snowpack_evil:abort"

pytestmark = pytest.mark.one_database


@pytest.fixture(autouse=True)
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A module that could be imported, as ``os`` can."""
    (tmp_path / "snowpack_evil.py").write_text("def abort():\n    return 0.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    assert "snowpack_evil" not in sys.modules, "code was imported that is not registered"


def declared(probe: str, name: str = "loaded") -> Schedule:
    return Schedule(name, dag_id="maintain", trigger=GO, constraints=[ClusterLoad(probe)], enabled=True)


@pytest.mark.parametrize(
    "name", [CODE, "os:abort", "", "a b", "..", "../x", "a.b", "a/b", "\uff41", "x" * 65, None, 7, ["load"], {"load": 1}]
)
def test_a_probe_is_a_name_and_nothing_else(name: Any) -> None:
    with pytest.raises(InvalidSchedule, match=r"constraints\[0\].cluster_load.probe"):
        Schedule.from_json(
            {"name": "a", "dag_id": "b", "trigger": {"custom_events": "go"}, "constraints": [{"cluster_load": {"probe": name}}]}
        )


def test_an_unknown_name_is_refused_with_those_that_are_registered(scheduler: Any) -> None:
    scheduler.schedules.create(declared("load"))
    unknown = r"constraints\[0\].cluster_load.probe = 'other' .* registered are broken, licenses, load, time"
    with pytest.raises(InvalidSchedule, match=unknown):
        scheduler.schedules.create(declared("other", "second"))
    with pytest.raises(InvalidSchedule, match=unknown):
        scheduler.schedules.update(declared("other"))
    with pytest.raises(InvalidSchedule, match=unknown):
        sync(scheduler.schedules, [Schedule("fine", dag_id="d", trigger=GO), declared("other", "z")], update=True)
    assert [one.name for one in scheduler.schedules.list()] == ["loaded"], "nothing of the files was deployed"


def test_a_stored_schedule_that_names_code_is_explained_imports_nothing_and_stops_no_other(scheduler: Any) -> None:
    for name in ("a_fine", "loaded", "z_fine"):
        scheduler.declare(name, GO, dag_id=f"dag_{name}")
    old = {**declared("load").to_json(), "constraints": [{"cluster_load": {"probe": CODE}}]}
    change = sa.update(schedules).where(schedules.c.name == "loaded").values(definition=old)
    scheduler.store.transact(lambda conn: conn.execute(change))
    scheduler.send("go")
    scheduler.work()
    scheduler.go_on(minutes=2)
    assert sorted(launch.schedule for launch in scheduler.started) == ["a_fine", "z_fine"]
    shown = str(explain(scheduler.schedules, "loaded"))
    assert "it names code, which is no longer allowed; register it under a name in [snowpack] load_probes" in shown


def test_a_run_waits_with_the_reason_while_its_probe_is_not_registered_or_fails(scheduler: Any, tmp_path: Path) -> None:
    scheduler.declare("loaded", GO, ClusterLoad("licenses"))
    scheduler.send("go")
    scheduler.work()
    assert scheduler.started == []
    shown = str(explain(scheduler.schedules, "loaded"))
    assert re.search(r"the load licenses is not known: its probe \S+:\S+ failed with ModuleNotFoundError: No module named", shown)
    (tmp_path / "acme_nan.py").write_text("def nan():\n    return float('nan')\n")
    found = measure(["gone", "nan", "time"], {"nan": "acme_nan:nan", "time": "time:time"})
    assert found["gone"] == Unavailable("[snowpack] load_probes has no 'gone'")
    assert found["nan"] == Unavailable("its probe returned nan")
    assert isinstance(found["time"], float)


def test_a_probe_that_hangs_delays_no_other_and_is_named_and_called_again_after_a_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    released, called, seconds = Event(), list[str](), [0.0]

    def hang() -> float:
        called.append("stuck")
        seconds[0] += 3600  # it exceeds its limit, and the others have returned, or begin after it
        assert released.wait(PATIENCE_S)
        return 0.1

    probes = ModuleType("snowpack_probes")
    probes.hang, probes.well = hang, lambda: 0.5  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "snowpack_probes", probes)
    registered = {"stuck": "snowpack_probes:hang", "well": "snowpack_probes:well"}
    calls: TimedCalls[tuple[str, str], float] = TimedCalls(
        lambda probe: f"The load probe {probe[0]}", limit=timedelta(minutes=30), concurrent=1, monotonic=lambda: seconds[0]
    )
    try:
        for _ in range(2):
            found = measure(["stuck", "well"], registered, calls=calls)
            assert found["well"] == 0.5
            assert found["stuck"] == Unavailable(
                "The load probe stuck did not answer within 30 min. It is set aside, and tried again after 1 min"
            )
        assert called == ["stuck"]
        assert measure(["well"], registered, patience=timedelta(0), calls=calls).keys() == {"well"}
    finally:
        released.set()
