"""The root of every error this package raises.

    SnowpackError
    ├── store  StoreError: UnsupportedStore, StoreFolderMissing, PoolerRefusesTransactions, StoreUnreachable, StoreTooSlow,
    │         SchemaOutOfDate, UnknownRevision; InvalidCursor
    ├── iceberg  InvalidTableName, InvalidCatalogName, TableNotFound, TableUnreadable, WrongCatalog, LocationOutsideTable,
    │         CatalogUnreachable
    ├── spark  SparkUnavailable (CatalogNotConfigured, OrphanStillRunning), SparkFailed (SparkDied), SparkInterrupted
    ├── jobs  JobError: TableLocked, DrainModeOn, JobNotFound, JobAlreadyFinished, JobStillActive, NotTheOwner, StaleAttempt,
    │         LeaseRanOut, WorkStillRunning, LockInUse, InvalidKey, KeyUsedBefore
    ├── maintenance  UnknownAction, NoActions, InvalidActionOrder, InvalidOption (InvalidPredicate), OrphanRemovalRefused
    ├── scheduling  SchedulingError: InvalidSchedule (InvalidRun), ScheduleExists (NameTaken), ScheduleNotFound,
    │         ScheduleNotReadable, KeptByRun, RunExists, RunNotFound, InvalidEvent, WrongTransition
    ├── builds  BuildError: InvalidBuild, InvalidKey, ShardCoverageError, TooManyKeys, ShardFailed, DatasetNotFound,
    │         BuildNotFound, DatasetBusy, StaleBuild (LockLost, BuildLeaseRanOut), PublishFailed (PointerMoved,
    │         PointerUnknown), CleanupIncomplete, NothingPublished, ManifestDamaged, StorageFailed (ObjectMissing, ObjectChanged)
    ├── interim  InterimError: InvalidInterimRef, InvalidInterimTable, InterimTableGone, InterimTableNotFound, InterimTableInUse,
    │         InvalidInterimCursor, InterimReadingLost, StaleInterimAttempt, ForeignNamespace, UnmarkedNamespace, DropFailed,
    │         FunctionError (UnusableFunction, InvalidColumns, InvalidReduction, WrongRows, FunctionFailed)
    ├── preservation  InvalidPreservation
    ├── cli  UsageProblem (AmbiguousJobId, Unconfirmed, NoAirflow), NotTheHolder, NoToken, WeakToken, Declined
    └── Airflow  InvalidSetting, ConnectionNotFound, UnsuitableConnection, IncompleteConnection, EmbeddedNotShared, OtherCatalog,
              OtherInstallation, InvalidRetention,
              AirflowUnreachable, UnreadableArgument

Each room keeps its own branch in its ``errors.py``. A message is a complete sentence with the value, the rule and the way out.
"""

from __future__ import annotations


class SnowpackError(Exception):
    """The root: catch this to catch everything the package raises on purpose."""
