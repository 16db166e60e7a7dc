from .dispatcher import DispatcherTrigger as DispatcherTrigger
from .image_builds import ImageBuildTrigger as ImageBuildTrigger
from .table_watcher import ArrivalProducer as ArrivalProducer, TableWatcherTrigger as TableWatcherTrigger
from .waits import (
    BuildPublishedTrigger as BuildPublishedTrigger,
    DataArrivalTrigger as DataArrivalTrigger,
    JobQueueTrigger as JobQueueTrigger,
    MaintenanceJobTrigger as MaintenanceJobTrigger,
    RunConstraintTrigger as RunConstraintTrigger,
    TableLockTrigger as TableLockTrigger,
)
