"""Errors of schedules, registered runs and events."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import plural


class SchedulingError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of schedules, registered runs and events."""


class InvalidSchedule(SchedulingError, kind=Kind.INVALID):
    """Invalid schedule.

    :ivar field: the path of the field, such as ``trigger.any_of[1].count``.
    :ivar problem: what is wrong with it and what is allowed.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        super().__init__(f"{field} = {_shown(value)} is not usable: {problem.rstrip('.')}.")

    def below(self, parent: str) -> InvalidSchedule:
        """Return the same error with a longer path to the field."""
        return InvalidSchedule(f"{parent}.{self.field}", self.value, self.problem)


class InvalidRun(InvalidSchedule, kind=Kind.INVALID):
    """Invalid registered run."""


def _shown(value: object) -> str:
    try:
        return f"{value!r:.200}"
    except (ValueError, RecursionError):  # a number with thousands of digits, or a value nested as deeply
        return f"a {type(value).__name__} too large to show"


class ScheduleExists(SchedulingError, kind=Kind.REFUSED):
    """A schedule with this name exists."""

    def __init__(self, name: str) -> None:
        super().__init__(f"A schedule {name!r} exists already. Update it, or choose another name.")


class NameTaken(ScheduleExists, kind=Kind.REFUSED):
    """The name is in use.

    :param holder: ``schedule`` or ``registered run``.
    """

    def __init__(self, name: str, holder: str) -> None:
        SchedulingError.__init__(
            self, f"A {holder} {name!r} exists already, and schedules and registered runs share their names. Choose another name."
        )


class ScheduleNotFound(SchedulingError, kind=Kind.NOT_FOUND):
    """Schedule not found."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no schedule {name[:80]!r}. List the schedules to find the right name.")


class ScheduleNotReadable(SchedulingError, kind=Kind.REFUSED):
    """This version cannot read the schedule."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"The schedule {name!r} cannot be read by this version: {problem} Upgrade if a newer version wrote it; "
            "otherwise update it with a definition that can be read, or delete it."
        )


class DiscardsEvents(SchedulingError, kind=Kind.REFUSED):
    """The change discards events that wait.

    :ivar what: what the change does, in one sentence.
    """

    def __init__(self, name: str, runs: int, events: int) -> None:
        self.what = (
            f"A change of the trigger, constraints or DAG of {name!r} discards {plural(runs, 'pending run')} with "
            f"{plural(events, 'event')}."
        )
        super().__init__(f"{self.what} Pass discard=true to make the change, or wait until the DAG has started.")


class DagNotAllowed(SchedulingError, kind=Kind.FORBIDDEN):
    """Permission to start the DAG denied."""

    def __init__(self, user: str, dag_id: str) -> None:
        super().__init__(
            f"{user} may not start the DAG {dag_id!r}, which needs the permission to trigger it: POST on the runs of the DAG in "
            "Airflow's auth manager. Request a role that has it."
        )


class KeptByRun(SchedulingError, kind=Kind.REFUSED):
    """The schedule is a registered run."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The schedule {name!r} is a registered run. Change it with `airflow snowpack runs upsert`, `enable`, `disable` or "
            "`unregister`."
        )


class RunExists(SchedulingError, kind=Kind.REFUSED):
    """A registered run with this name exists."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The run {name!r} is registered already. Use `upsert` to change it, or choose another name.")


class RunNotFound(SchedulingError, kind=Kind.NOT_FOUND):
    """Registered run not found."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no registered run {name[:80]!r}. List the registered runs to find the right name.")


class InvalidEvent(SchedulingError, kind=Kind.INVALID):
    """Invalid event."""


class WrongTransition(SchedulingError, kind=Kind.FAILED):
    """The state does not allow this change."""

    def __init__(self, pending_id: str, state: str, wanted: str) -> None:
        super().__init__(f"The pending run {pending_id} is {state} and cannot become {wanted}.")
