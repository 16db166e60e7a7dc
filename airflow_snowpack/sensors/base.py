"""The base of the sensors: one poke in the worker, then a wait in the triggerer."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowException, AirflowSensorTimeout
from airflow.sdk import BaseSensorOperator, PokeReturnValue

from airflow_snowpack.operators.base import UsesStore

if TYPE_CHECKING:
    from airflow.sdk import Context

    from airflow_snowpack.triggers.wait_for import WaitFor

    OnTimeout = Literal["go_on", "skip", "fail"]

ON_TIMEOUT: tuple[OnTimeout, ...] = ("go_on", "skip", "fail")


class WaitingSensor(UsesStore, BaseSensorOperator):
    """Base of the sensors. A subclass defines ``poke``, and the trigger that waits for the same condition.

    :param deferrable: wait in the triggerer, which uses no worker slot; ``False`` pokes in the worker.
    :param poke_interval: the time between two checks.
    """

    ui_color = "#e6f1f2"
    _until: datetime | None = None

    def __init__(
        self,
        *,
        deferrable: bool = True,
        poke_interval: timedelta | float = timedelta(seconds=10),
        **kwargs: Any,
    ) -> None:
        super().__init__(poke_interval=poke_interval, **kwargs)
        self.deferrable = deferrable

    def poke(self, context: Context) -> PokeReturnValue:
        """Return whether the wait is over, and the XCom of the task."""
        raise NotImplementedError

    def question(self, context: Context, until: datetime) -> WaitFor:
        """Return the trigger that waits until the next poke may succeed."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        if not self.deferrable:
            return super().execute(context)
        from airflow_snowpack.store import utc_now

        return self._poke_or_wait(context, utc_now() + timedelta(seconds=self.timeout))

    def execute_complete(self, context: Context, event: dict[str, Any], until: str) -> Any:
        """Poke again after a wait, and wait for the rest of the timeout if the condition is not met."""
        if problem := event.get("problem"):
            raise AirflowException(problem)
        return self._poke_or_wait(context, datetime.fromisoformat(until))

    def _poke_or_wait(self, context: Context, until: datetime) -> Any:
        self._until = until
        if (answer := self.poke(context)).is_done:
            return answer.xcom_value
        return self._wait(context, until)

    def _wait(self, context: Context, until: datetime) -> Any:
        from airflow_snowpack.store import utc_now

        self._defer(context, until, timeout=max(timedelta(0), until - utc_now()))

    def _defer(self, context: Context, until: datetime, timeout: timedelta | None) -> None:
        arguments = {"until": until.isoformat()}
        self.defer(trigger=self.question(context, until), method_name="execute_complete", kwargs=arguments, timeout=timeout)


class DecidesOnTimeout(WaitingSensor):
    """Base of the sensors that can succeed after their timeout.

    :param on_timeout: what to do then: ``go_on``, ``skip`` or ``fail``.
    """

    def __init__(self, *, on_timeout: OnTimeout = "skip", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if on_timeout not in ON_TIMEOUT:
            raise ValueError(f"on_timeout = {on_timeout!r} is not valid. Use one of: {', '.join(ON_TIMEOUT)}.")
        self.on_timeout = on_timeout

    def time_out(self, context: Context) -> Any:
        """End the task after its timeout."""
        raise NotImplementedError

    def execute(self, context: Context) -> Any:
        try:
            return super().execute(context)
        except AirflowSensorTimeout:  # raised by a sensor that pokes in the worker
            return self.time_out(context)

    def execute_complete(self, context: Context, event: dict[str, Any], until: str) -> Any:
        """Poke again after a wait, or decide after the timeout."""
        if event.get("why") == "over":
            return self.time_out(context)
        return super().execute_complete(context, event, until)

    def _wait(self, context: Context, until: datetime) -> Any:
        from airflow_snowpack.store import utc_now

        if utc_now() >= until:
            return self.time_out(context)
        return self._defer(context, until, timeout=None)  # the trigger ends the wait, and the task decides
