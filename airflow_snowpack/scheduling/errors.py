"""What can be wrong with a schedule.

SchedulingError
├── InvalidSchedule      a declaration that cannot be used, with the field that is to blame
│   └── InvalidRun       the same of a registered run
├── ScheduleExists       the name is taken
│   └── NameTaken        by a schedule for a registered run, or the other way round
├── ScheduleNotFound     no schedule has this name
├── ScheduleNotReadable  what is stored under a name cannot be read by this version
├── KeptByRun            the schedule is the cron of a registered run, and is changed there
├── RunExists            the name is registered
├── RunNotFound          no registered run has this name
├── InvalidEvent         an event that cannot be recorded
└── WrongTransition      a pending job asked to go where it cannot go
"""

from __future__ import annotations

from airflow_snowpack.errors import SnowpackError


class SchedulingError(SnowpackError):
    """The root of the room's errors."""


class InvalidSchedule(SchedulingError):
    """A declaration that cannot be used.

    :ivar field: the path of the field, such as ``trigger.any_of[1].count``.
    :ivar problem: what is wrong with it and what is allowed.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        self.value = value
        self.problem = problem
        super().__init__(f"{field} = {_shown(value)} is not usable: {problem.rstrip('.')}.")

    def below(self, parent: str) -> InvalidSchedule:
        """The same error, seen from further up."""
        return InvalidSchedule(f"{parent}.{self.field}", self.value, self.problem)


class InvalidRun(InvalidSchedule):
    """A registered run that cannot be used."""


def _shown(value: object) -> str:
    try:
        return f"{value!r:.200}"
    except (ValueError, RecursionError):  # a number of thousands of digits, or something nested as deeply
        return f"a {type(value).__name__} too large to show"


class ScheduleExists(SchedulingError):
    """The name is taken."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is a schedule {name!r} already. Update it, or choose another name.")


class NameTaken(ScheduleExists):
    """Schedules and registered runs share their names, as a registered run with a cron is a schedule.

    :param holder: what has the name.
    """

    def __init__(self, name: str, holder: str) -> None:
        SchedulingError.__init__(self, f"There is a {holder} {name!r} already, and both share their names. Choose another name.")


class ScheduleNotFound(SchedulingError):
    """No schedule has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no schedule {name[:80]!r}. List the schedules to find the right name.")


class ScheduleNotReadable(SchedulingError):
    """What is stored under a name is no schedule that this version can read."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(
            f"The schedule {name!r} cannot be read by this version: {problem} Upgrade if a newer version wrote it; "
            "otherwise update it with a definition that can be read, or delete it."
        )


class KeptByRun(SchedulingError):
    """The schedule belongs to a registered run."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"The schedule {name!r} is the cron of the registered run of this name. Change that instead: "
            "`airflow snowpack runs upsert`, `enable`, `disable` or `unregister`."
        )


class RunExists(SchedulingError):
    """The name is registered."""

    def __init__(self, name: str) -> None:
        super().__init__(f"The run {name!r} is registered already. Upsert it to change it, or choose another name.")


class RunNotFound(SchedulingError):
    """No registered run has this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"No run is registered as {name[:80]!r}. List the registered runs to find the right name.")


class InvalidEvent(SchedulingError):
    """An event that cannot be recorded."""


class WrongTransition(SchedulingError):
    """A pending job asked to go where it cannot go."""

    def __init__(self, pending_id: str, state: str, wanted: str) -> None:
        super().__init__(f"The pending job {pending_id} is {state} and cannot become {wanted}.")
