"""What differs between Airflow 3.1, 3.2 and 3.3, beyond the imports that the common-compat provider covers.

    DAG("fleet", **without_backfills())
    require("IcebergTableWatcher", (3, 3), "Schedule the DAG by a Snowpack schedule, or wait with WaitForDataSensor.")

`docs/compatibility.md` lists what is missing in which version. No other module compares versions of Airflow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from airflow import __version__

from airflow_snowpack.errors import Kind, SnowpackError

AIRFLOW = tuple(int(part) for part in __version__.split(".")[:2])
"""The installed version, for example ``(3, 3)``."""

TASKS_READ_DAG_RUNS = AIRFLOW >= (3, 2)
"""Tasks can read DAGs and DAG runs through the Task SDK; otherwise they need a connection to the REST API."""

if TYPE_CHECKING:
    from airflow.sdk.exceptions import (
        AirflowSecretsBackendAccessDenied as AirflowSecretsBackendAccessDenied,
        TaskDeferralError as TaskDeferralError,
        TaskDeferralTimeout as TaskDeferralTimeout,
    )
    from airflow.triggers.shared_stream import SharedStreamProducer as SharedStreamProducer
else:
    if AIRFLOW >= (3, 2):
        from airflow.sdk.exceptions import (
            AirflowSecretsBackendAccessDenied as AirflowSecretsBackendAccessDenied,
            TaskDeferralError as TaskDeferralError,
            TaskDeferralTimeout as TaskDeferralTimeout,
        )
    else:
        from airflow.exceptions import TaskDeferralError as TaskDeferralError, TaskDeferralTimeout as TaskDeferralTimeout

        class AirflowSecretsBackendAccessDenied(PermissionError):
            """Never raised: Airflow 3.1 reports a connection that may not be read as one that does not exist."""

    if AIRFLOW >= (3, 3):
        from airflow.triggers.shared_stream import SharedStreamProducer as SharedStreamProducer
    else:

        class SharedStreamProducer:
            """Never started: :func:`require` refuses the trigger of a stream."""


class OwnRendering:
    """Base of operators that take ``render_template_as_native_obj``, which only DAGs of Airflow 3.1 have."""

    if AIRFLOW < (3, 2) and not TYPE_CHECKING:

        def __init__(self, *, render_template_as_native_obj: bool | None = None, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.render_template_as_native_obj = render_template_as_native_obj

        def _render(self, template: Any, context: Any, dag: Any = None) -> Any:
            from airflow.sdk.definitions.context import render_template_as_native, render_template_to_string

            own = self.render_template_as_native_obj
            is_native = dag is not None and dag.render_template_as_native_obj if own is None else own
            return (render_template_as_native if is_native else render_template_to_string)(template, context)


class NeedsNewerAirflow(SnowpackError, kind=Kind.MISCONFIGURED):
    """The installed Airflow lacks what a feature needs."""

    def __init__(self, feature: str, needed: tuple[int, int], instead: str) -> None:
        super().__init__(f"{feature} needs Airflow {needed[0]}.{needed[1]}, and {__version__} is installed. {instead}")


def require(feature: str, needed: tuple[int, int], instead: str) -> None:
    """Refuse a feature that the installed Airflow cannot run.

    :param needed: the first version of Airflow that can.
    :param instead: what to do with the installed version, in a sentence.
    :raises NeedsNewerAirflow: the installed version is older.
    """
    if needed > AIRFLOW:
        raise NeedsNewerAirflow(feature, needed, instead)


def dag_bags() -> Any:
    """Return the module with Airflow's ``DagBag`` and ``BundleDagBag``."""
    return import_module("airflow.dag_processing.dagbag" if AIRFLOW >= (3, 2) else "airflow.models.dagbag")


def without_backfills() -> dict[str, Any]:
    """Return the arguments of a DAG that refuses backfills. Airflow 3.1 has no such argument, and backfills the DAG."""
    if AIRFLOW < (3, 2):
        return {}
    # Airflow takes names, and exports no class for them.
    return {"allowed_run_types": ["scheduled", "manual", *(["operator_triggered"] if AIRFLOW >= (3, 3) else [])]}
