"""Triggers: wait for a job, a free table, or what schedules wait for in the triggerer, without holding a worker's slot."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.triggers.build_published import BuildPublishedTrigger as BuildPublishedTrigger
    from airflow_snowpack.triggers.data_arrival import DataArrivalTrigger as DataArrivalTrigger
    from airflow_snowpack.triggers.dispatcher import DispatcherTrigger as DispatcherTrigger
    from airflow_snowpack.triggers.maintenance_job import MaintenanceJobTrigger as MaintenanceJobTrigger
    from airflow_snowpack.triggers.run_constraint import RunConstraintTrigger as RunConstraintTrigger
    from airflow_snowpack.triggers.table_lock import TableLockTrigger as TableLockTrigger
    from airflow_snowpack.triggers.table_watcher import ArrivalProducer as ArrivalProducer
    from airflow_snowpack.triggers.table_watcher import TableWatcherTrigger as TableWatcherTrigger

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "build_published": ["BuildPublishedTrigger"],
        "data_arrival": ["DataArrivalTrigger"],
        "dispatcher": ["DispatcherTrigger"],
        "maintenance_job": ["MaintenanceJobTrigger"],
        "run_constraint": ["RunConstraintTrigger"],
        "table_lock": ["TableLockTrigger"],
        "table_watcher": ["ArrivalProducer", "TableWatcherTrigger"],
    },
)
