"""Holds a run back until it may go on: the run constraints of schedules, inside of one DAG.

    gate = RunConstraintSensor(
        task_id="gate",
        constraints=[TimeWindow("22:00", "06:00", tz="Europe/Berlin"), MaxConcurrent(2, group="compaction")],
    )
    gate >> work

It belongs first in the DAG: a run takes a place from when it has passed until it has ended, and one that waits here takes none
from others who wait. What schedules launch and what passes a gate count each other.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk import BaseSensorOperator, PokeReturnValue
from airflow.sdk.exceptions import AirflowException, AirflowSensorTimeout, AirflowSkipException

from airflow_snowpack.airflow.task_ref import TaskRef
from airflow_snowpack.operators.refusals import refusals_are_final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.scheduling import Gate, GatedRun, GatePlace
    from airflow_snowpack.scheduling.constraints.constraint import Constraint

OnTimeout = Literal["go_on", "skip", "fail"]
CHOICES: tuple[OnTimeout, ...] = ("go_on", "skip", "fail")
WAITS = "waits_because"
"""The key of the XCom that says why the run waits, for people who look at the task."""


class RunConstraintSensor(BaseSensorOperator):
    """Waits for run constraints.

    :param constraints: what must be met: any constraints that a schedule may have, as values or as their JSON (which may be
        templated). ``MaxConcurrent`` counts the runs of this DAG, or of a group, that have passed and not ended; ``MaxRuns``
        those that passed this gate; ``Delay`` counts from when the run came here.
    :param priority: the run gives way to schedules of a higher one that wait for the same, as schedules do among themselves.
    :param on_timeout: when the time is up: ``go_on`` all the same, ``skip``, or ``fail``.
    :param deferrable: wait in the triggerer, without a worker's slot; the default.
    :param poke_interval: how often to ask again where no moment is known and no end of a run is told.
    :param airflow_conn_id: the connection to Airflow's REST API, which only constraints on pools need; ``None`` for the
        installation's. Likewise ``store_conn_id``.

    Returns whether the constraints were ``met``, what they said, and how many seconds the run waited.
    """

    template_fields: Sequence[str] = ("constraints", "store_conn_id", "airflow_conn_id")
    ui_color = "#e6f1f2"

    def __init__(
        self,
        *,
        constraints: Sequence[Constraint | Mapping[str, Any]],
        priority: int = 0,
        on_timeout: OnTimeout = "skip",
        deferrable: bool = True,
        store_conn_id: str | None = None,
        airflow_conn_id: str | None = None,
        poke_interval: timedelta | float = timedelta(seconds=30),
        timeout: timedelta | float = timedelta(days=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        if on_timeout not in CHOICES:
            raise ValueError(f"on_timeout = {on_timeout!r} is not known. Use one of: {', '.join(CHOICES)}.")
        self.constraints = constraints
        self.priority = priority
        self.on_timeout = on_timeout
        self.deferrable = deferrable
        self.store_conn_id = store_conn_id
        self.airflow_conn_id = airflow_conn_id
        if "{{" not in str(constraints):
            self._constraints()

    def execute(self, context: Context) -> Any:
        """Ask once, and wait if the run may not go on yet."""
        if not self.deferrable:
            try:
                return super().execute(context)
            except AirflowSensorTimeout:
                return self._time_out(context)
        from airflow_snowpack.store import utc_now

        return self._ask_or_wait(context, until=utc_now() + timedelta(seconds=self.timeout))

    def go_on(self, context: Context, event: dict[str, Any], until: str) -> Any:
        """The triggerer calls the run, or has seen the end of the time."""
        return self._ask_or_wait(context, datetime.fromisoformat(until))

    def poke(self, context: Context) -> PokeReturnValue:
        """Ask, and let pass."""
        from airflow_snowpack.scheduling import GateState

        run = self._ask(context)
        if run.state is GateState.SKIPPED:
            raise AirflowSkipException(run.says)
        passed = run.state is GateState.PASSED
        return PokeReturnValue(is_done=passed, xcom_value=_report(run) if passed else None)

    def _ask_or_wait(self, context: Context, until: datetime) -> Any:
        from airflow_snowpack.store import utc_now
        from airflow_snowpack.triggers.run_constraint import RunConstraintTrigger

        if (answer := self.poke(context)).is_done:
            return answer.xcom_value
        if utc_now() >= until:
            return self._time_out(context)
        run, place = self._waiting, _place_of(context)
        trigger = RunConstraintTrigger(
            dag_id=place.dag_id,
            run_id=place.run_id,
            task=place.task,
            constraints=[constraint.to_json() for constraint in self._constraints()],
            until=until.isoformat(),
            not_before=None if run.not_before is None else run.not_before.isoformat(),
            store_conn_id=self.store_conn_id,
            recheck_seconds=self.poke_interval,
        )
        self.defer(trigger=trigger, method_name="go_on", kwargs={"until": until.isoformat()})
        return None

    def _ask(self, context: Context) -> GatedRun:
        """How the run stands; whoever looks at the task is told why it waits."""
        from airflow_snowpack.hooks.errors import AirflowUnreachable
        from airflow_snowpack.hooks.store import SnowpackHook

        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            gate = self._gate(context, hook)
            try:
                run = gate.ask()
            except AirflowUnreachable as problem:
                self.log.warning("%s", problem)
                run = gate.stands()
        self.log.info("%s: %s", run.state.capitalize(), run.says)
        if run.state == "waiting":
            self._waiting = run
            context["ti"].xcom_push(WAITS, run.says)
        return run

    def _time_out(self, context: Context) -> Any:
        from airflow_snowpack.hooks.store import SnowpackHook
        from airflow_snowpack.scheduling import GateState

        becomes = {"go_on": GateState.PASSED, "skip": GateState.SKIPPED, "fail": GateState.WAITING}[self.on_timeout]
        with refusals_are_final(), SnowpackHook(self.store_conn_id) as hook:
            run = self._gate(context, hook).time_out(becomes)
        says = f"The run was not to go on within {timedelta(seconds=self.timeout)}: {run.says}"
        self.log.info("%s", says)
        if run.state is GateState.PASSED:
            return _report(run)
        raise AirflowSkipException(says) if self.on_timeout == "skip" else AirflowException(says)

    def _gate(self, context: Context, hook: SnowpackHook) -> Gate:
        from airflow_snowpack.hooks.scheduling import runs_for_a_task
        from airflow_snowpack.scheduling import Gate

        airflow = runs_for_a_task(hook.settings, self.airflow_conn_id)
        return Gate(hook.store(), airflow, _place_of(context), self._constraints(), priority=self.priority)

    def _constraints(self) -> Sequence[Constraint]:
        from airflow_snowpack.scheduling import parse_constraints

        return parse_constraints(self.constraints)


def _place_of(context: Context) -> GatePlace:
    from airflow_snowpack.scheduling import GatePlace

    ref = TaskRef.of(context["ti"])
    return GatePlace(ref.dag_id, ref.run_id, ref.task)


def _report(run: GatedRun) -> dict[str, Any]:
    assert run.passed_at is not None, "it has passed"
    waited = (run.passed_at - run.arrived_at).total_seconds()
    return {"met": not run.blocked_by, "says": [reason.says for reason in run.reasons], "waited_seconds": waited}
