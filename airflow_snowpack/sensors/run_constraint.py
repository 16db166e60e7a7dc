"""Keep a run waiting inside its DAG until its constraints are met."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowException, AirflowSkipException
from airflow.sdk import PokeReturnValue

from airflow_snowpack.sensors.base import DecidesOnTimeout

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from airflow.sdk import Context

    from airflow_snowpack.hooks.store import SnowpackHook
    from airflow_snowpack.scheduling import Gate, GatedRun, GatePlace
    from airflow_snowpack.scheduling.constraints.constraint import Constraint
    from airflow_snowpack.triggers import RunConstraintTrigger

REASON_KEY = "waiting_reason"
"""The XCom with the reason why the run waits."""


class RunConstraintSensor(DecidesOnTimeout):
    """Waits until the constraints of a run are met. Make it the first task of the DAG.

        gate = RunConstraintSensor(
            task_id="gate",
            constraints=[TimeWindow("22:00", "06:00", tz="Europe/Berlin"), MaxConcurrent(2, group="compaction")],
        )
        gate >> work

    A run counts as active from when it passes until it ends; a run that waits here does not count. Runs that schedules launch and
    runs that pass a gate count each other.

    :param constraints: any constraints of schedules, as values or as their JSON. (templated) ``MaxConcurrent`` counts the runs of
        this DAG, or of a group, that have passed and not ended; ``MaxRuns`` the runs that passed this gate; ``Delay`` counts from
        when the run arrived here.
    :param priority: of the runs and schedules that wait for the same thing, those with a higher priority pass first.
    :param on_timeout: what to do after the timeout: ``go_on``, ``skip`` or ``fail``.
    :param store_conn_id, airflow_conn_id: the Airflow connections of the store and of Airflow's REST API, which only constraints
        on pools need; ``None`` for the installation's.
    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks when no constraint named a time and no end of a run was reported.
    :param timeout: how long to wait.

    Returns whether the constraints were ``met``, what they reported, and how many seconds the run waited.
    """

    template_fields: Sequence[str] = ("constraints", "store_conn_id", "airflow_conn_id")

    def __init__(
        self,
        *,
        constraints: Sequence[Constraint | Mapping[str, Any]],
        priority: int = 0,
        airflow_conn_id: str | None = None,
        poke_interval: timedelta | float = timedelta(seconds=30),
        timeout: timedelta | float = timedelta(days=1),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, timeout=timeout, **kwargs)
        self.constraints = constraints
        self.priority = priority
        self.airflow_conn_id = airflow_conn_id
        if "{{" not in str(constraints):
            self._constraints()

    def poke(self, context: Context) -> PokeReturnValue:
        from airflow_snowpack.scheduling import GateState

        run = self._evaluate(context)
        if run.state is GateState.SKIPPED:
            raise AirflowSkipException(run.text)
        passed = run.state is GateState.PASSED
        return PokeReturnValue(is_done=passed, xcom_value=_report(run) if passed else None)

    def question(self, context: Context, until: datetime) -> RunConstraintTrigger:
        from airflow_snowpack.store import utc_now
        from airflow_snowpack.triggers import RunConstraintTrigger

        place, not_before = _place_of(context), self._waiting.not_before
        if not_before is not None and not_before <= utc_now():
            not_before = None  # Airflow did not answer when it was due: it is due again after the recheck interval
        return RunConstraintTrigger(
            dag_id=place.dag_id,
            run_id=place.run_id,
            task_key=place.task,
            until=until.isoformat(),
            not_before=None if not_before is None else not_before.isoformat(),
            store_conn_id=self.store_conn_id,
            recheck_seconds=self.poke_interval,
        )

    def time_out(self, context: Context) -> Any:
        """Evaluate the constraints once more, then go on, skip, or fail."""
        from airflow_snowpack.humanize import duration
        from airflow_snowpack.scheduling import GateState

        if (answer := self.poke(context)).is_done:
            return answer.xcom_value
        becomes = {"go_on": GateState.PASSED, "skip": GateState.SKIPPED, "fail": GateState.WAITING}[self.on_timeout]
        with self.installation() as hook:
            run = self._gate(context, hook).time_out(becomes)
        message = f"The constraints were not met within {duration(self.timeout)}: {run.text}"
        self.log.info("%s", message)
        if run.state is GateState.PASSED:
            return _report(run)
        raise AirflowSkipException(message) if self.on_timeout == "skip" else AirflowException(message)

    def _evaluate(self, context: Context) -> GatedRun:
        """Return the state of the run, and publish the reason why it waits."""
        from airflow_snowpack.hooks.errors import AirflowUnreachable

        with self.installation() as hook:
            gate = self._gate(context, hook)
            try:
                run = gate.ask()
            except AirflowUnreachable as problem:
                self.log.warning("%s", problem)
                run = gate.last()
        self.log.info("%s: %s", run.state.capitalize(), run.text)
        if run.state == "waiting":
            self._waiting = run
            context["ti"].xcom_push(REASON_KEY, run.text)
        return run

    def _gate(self, context: Context, hook: SnowpackHook) -> Gate:
        from airflow_snowpack.hooks.services import runs_for_a_task
        from airflow_snowpack.scheduling import Gate

        airflow = runs_for_a_task(hook.settings, self.airflow_conn_id)
        return Gate(hook.store(), airflow, _place_of(context), self._constraints(), priority=self.priority)

    def _constraints(self) -> Sequence[Constraint]:
        from airflow_snowpack.scheduling import parse_constraints

        return parse_constraints(self.constraints)


def _place_of(context: Context) -> GatePlace:
    from airflow_snowpack.airflow.task_ref import TaskRef
    from airflow_snowpack.scheduling import GatePlace

    ref = TaskRef.of(context["ti"])
    return GatePlace(ref.dag_id, ref.run_id, ref.task)


def _report(run: GatedRun) -> dict[str, Any]:
    assert run.passed_at is not None, "it has passed"
    waited = (run.passed_at - run.arrived_at).total_seconds()
    return {"met": not run.blocked_by, "reasons": [reason.text for reason in run.reasons], "waited_seconds": waited}
