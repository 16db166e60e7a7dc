from .action_history import ActionFigures as ActionFigures, ActionHistory as ActionHistory, ActionRecord as ActionRecord
from .attempt import Attempt as Attempt
from .claim_order import check_priority as check_priority
from .errors import (
    DrainModeOn as DrainModeOn,
    InvalidKey as InvalidKey,
    InvalidPriority as InvalidPriority,
    JobAlreadyFinished as JobAlreadyFinished,
    JobError as JobError,
    JobNotFound as JobNotFound,
    JobRunsInTask as JobRunsInTask,
    JobStillActive as JobStillActive,
    KeyUsedBefore as KeyUsedBefore,
    LeaseRanOut as LeaseRanOut,
    LockInUse as LockInUse,
    NotTheOwner as NotTheOwner,
    StaleAttempt as StaleAttempt,
    TableLocked as TableLocked,
    WorkStillRunning as WorkStillRunning,
)
from .explanation import TableExplanation as TableExplanation, explain as explain, explain_tables as explain_tables
from .idempotency import RequestKey as RequestKey, Submission as Submission
from .listing import (
    MAX_EXAMINED as MAX_EXAMINED,
    JobCounts as JobCounts,
    JobFilter as JobFilter,
    JobPage as JobPage,
)
from .locks import TableLocks as TableLocks
from .manager import Jobs as Jobs
from .model import (
    DEFAULT_PRIORITY as DEFAULT_PRIORITY,
    PRIORITIES as PRIORITIES,
    ActionOutcome as ActionOutcome,
    ActionResult as ActionResult,
    Claim as Claim,
    DrainState as DrainState,
    Engine as Engine,
    HistoryEntry as HistoryEntry,
    Job as Job,
    JobStatus as JobStatus,
    LifecyclePolicy as LifecyclePolicy,
    QueuePlace as QueuePlace,
    QueueSample as QueueSample,
    QueueState as QueueState,
    RecentJob as RecentJob,
    SweepReport as SweepReport,
    TableLock as TableLock,
    shown_status as shown_status,
)
from .rescuer import Orphans as Orphans
from .worker import JobWorker as JobWorker
from .worker_list import WorkerReport as WorkerReport, WorkerState as WorkerState, list_workers as list_workers
