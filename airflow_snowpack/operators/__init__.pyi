from .build import BuildShardsOperator as BuildShardsOperator, ShardedBuildOperator as ShardedBuildOperator
from .build_steps import (
    CleanupBuildsOperator as CleanupBuildsOperator,
    PublishBuildOperator as PublishBuildOperator,
    RollbackBuildOperator as RollbackBuildOperator,
    SelectWinnersOperator as SelectWinnersOperator,
)
from .entries.run_entry import RunEntryOperator as RunEntryOperator
from .fleet import (
    MaintainFleetOperator as MaintainFleetOperator,
    PlanFleetOperator as PlanFleetOperator,
    ReportFleetOperator as ReportFleetOperator,
)
from .housekeeping import (
    CollectInterimTablesOperator as CollectInterimTablesOperator,
    PruneStoreOperator as PruneStoreOperator,
    SweepOperator as SweepOperator,
)
from .jobs import CancelMaintenanceOperator as CancelMaintenanceOperator, RunMaintenanceJobOperator as RunMaintenanceJobOperator
from .locks import AcquireTableLockOperator as AcquireTableLockOperator, ReleaseTableLockOperator as ReleaseTableLockOperator
from .maintain import MaintainTableOperator as MaintainTableOperator, SubmitMaintenanceOperator as SubmitMaintenanceOperator
from .map import (
    MapPartitionsOperator as MapPartitionsOperator,
    MapRowsOperator as MapRowsOperator,
    ReduceRowsOperator as ReduceRowsOperator,
)
from .notify import NotifyOperator as NotifyOperator
from .removals import PlanRemovalOperator as PlanRemovalOperator, RunRemovalOperator as RunRemovalOperator
from .schedule import SnowpackDispatcherOperator as SnowpackDispatcherOperator
from .workers import RunQueuedJobsOperator as RunQueuedJobsOperator
