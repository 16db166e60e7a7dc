"""Sensors: wait for a job's end, or for a free table."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.sensors.maintenance_job import MaintenanceJobSensor as MaintenanceJobSensor
    from airflow_snowpack.sensors.table_lock import TableLockSensor as TableLockSensor

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={"maintenance_job": ["MaintenanceJobSensor"], "table_lock": ["TableLockSensor"]},
)
