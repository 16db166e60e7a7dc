"""Operators: maintain tables, guard one's own writes with the same lock, steer jobs, and start what schedules want.

Most DAGs need only :class:`MaintainTableOperator`. Names load when they are first used, so that a DAG file pays only for what it
needs.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.operators.acquire_table_lock import AcquireTableLockOperator as AcquireTableLockOperator
    from airflow_snowpack.operators.cancel_maintenance import CancelMaintenanceOperator as CancelMaintenanceOperator
    from airflow_snowpack.operators.dispatcher import SnowpackDispatcherOperator as SnowpackDispatcherOperator
    from airflow_snowpack.operators.maintain_table import MaintainTableOperator as MaintainTableOperator
    from airflow_snowpack.operators.release_table_lock import ReleaseTableLockOperator as ReleaseTableLockOperator
    from airflow_snowpack.operators.run_maintenance_job import RunMaintenanceJobOperator as RunMaintenanceJobOperator
    from airflow_snowpack.operators.submit_maintenance import SubmitMaintenanceOperator as SubmitMaintenanceOperator
    from airflow_snowpack.operators.sweep import SweepOperator as SweepOperator

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "acquire_table_lock": ["AcquireTableLockOperator"],
        "cancel_maintenance": ["CancelMaintenanceOperator"],
        "dispatcher": ["SnowpackDispatcherOperator"],
        "maintain_table": ["MaintainTableOperator"],
        "release_table_lock": ["ReleaseTableLockOperator"],
        "run_maintenance_job": ["RunMaintenanceJobOperator"],
        "submit_maintenance": ["SubmitMaintenanceOperator"],
        "sweep": ["SweepOperator"],
    },
)
