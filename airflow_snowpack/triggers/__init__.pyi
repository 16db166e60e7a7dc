from .build_published import BuildPublishedTrigger as BuildPublishedTrigger
from .data_arrival import DataArrivalTrigger as DataArrivalTrigger
from .dispatcher import DispatcherTrigger as DispatcherTrigger
from .maintenance_job import MaintenanceJobTrigger as MaintenanceJobTrigger
from .run_constraint import RunConstraintTrigger as RunConstraintTrigger
from .table_lock import TableLockTrigger as TableLockTrigger
from .table_watcher import ArrivalProducer as ArrivalProducer
from .table_watcher import TableWatcherTrigger as TableWatcherTrigger
