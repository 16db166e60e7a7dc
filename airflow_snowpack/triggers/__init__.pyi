from .dispatcher import DispatcherTrigger as DispatcherTrigger
from .table_watcher import ArrivalProducer as ArrivalProducer
from .table_watcher import TableWatcherTrigger as TableWatcherTrigger
from .waits import BuildPublishedTrigger as BuildPublishedTrigger
from .waits import DataArrivalTrigger as DataArrivalTrigger
from .waits import MaintenanceJobTrigger as MaintenanceJobTrigger
from .waits import RunConstraintTrigger as RunConstraintTrigger
from .waits import TableLockTrigger as TableLockTrigger
