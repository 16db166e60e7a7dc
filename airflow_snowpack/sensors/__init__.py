"""Sensors: wait for a job's end, for a free table, for data, for a publication, or until a run may go on."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.sensors.build_published import BuildPublishedSensor as BuildPublishedSensor
    from airflow_snowpack.sensors.data_arrival import IcebergDataArrivalSensor as IcebergDataArrivalSensor
    from airflow_snowpack.sensors.maintenance_job import MaintenanceJobSensor as MaintenanceJobSensor
    from airflow_snowpack.sensors.run_constraint import RunConstraintSensor as RunConstraintSensor
    from airflow_snowpack.sensors.table_lock import TableLockSensor as TableLockSensor

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "build_published": ["BuildPublishedSensor"],
        "data_arrival": ["IcebergDataArrivalSensor"],
        "maintenance_job": ["MaintenanceJobSensor"],
        "run_constraint": ["RunConstraintSensor"],
        "table_lock": ["TableLockSensor"],
    },
)
