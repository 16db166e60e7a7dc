"""Errors of passes over the fleet."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError


class FleetError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of passes."""


class PassNotFound(FleetError, kind=Kind.NOT_FOUND):
    """Pass not found."""

    def __init__(self, pass_id: str) -> None:
        super().__init__(f"There is no pass {pass_id}. `airflow snowpack fleet list` shows the passes.")


class PassOfOtherCatalog(FleetError, kind=Kind.INVALID):
    """A pass cannot be maintained with the connection of another catalog."""

    def __init__(self, pass_id: str, catalog: str) -> None:
        super().__init__(
            f"Pass {pass_id} was planned for a catalog other than {catalog}. Use the same catalog_conn_id as for its plan."
        )


class PassNotPlanned(FleetError, kind=Kind.REFUSED):
    """A pass ended before all of its jobs were submitted."""

    def __init__(self, pass_id: str) -> None:
        super().__init__(
            f"Pass {pass_id} ended before all of its jobs were submitted: its planning has failed. See the log of the task that "
            f"plans it, and `airflow snowpack fleet show {pass_id}` for what was done."
        )


class PassTakenOver(FleetError, kind=Kind.CONFLICT):
    """Another process plans the pass."""

    def __init__(self, pass_id: str) -> None:
        super().__init__(f"Another process has taken over the planning of pass {pass_id}; this one wrote nothing.")
