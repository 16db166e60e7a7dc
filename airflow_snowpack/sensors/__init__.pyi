from .build_published import BuildPublishedSensor as BuildPublishedSensor
from .data_arrival import IcebergDataArrivalSensor as IcebergDataArrivalSensor
from .maintenance import (
    JobQueueSensor as JobQueueSensor,
    MaintenanceJobSensor as MaintenanceJobSensor,
    TableLockSensor as TableLockSensor,
)
from .run_constraint import RunConstraintSensor as RunConstraintSensor
