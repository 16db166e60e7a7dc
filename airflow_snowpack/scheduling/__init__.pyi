from .constraints.capacity_constraints import ClusterLoad as ClusterLoad, MaxConcurrent as MaxConcurrent, PoolSlots as PoolSlots
from .constraints.constraint import (
    CONSTRAINTS as CONSTRAINTS,
    Constraint as Constraint,
    ConstraintContext as ConstraintContext,
    FactUnavailable as FactUnavailable,
    OnUnmet as OnUnmet,
    RequiredFacts as RequiredFacts,
    Ruling as Ruling,
    later as later,
    met as met,
)
from .constraints.period_constraints import Delay as Delay, MaxRuns as MaxRuns, SinceLastRun as SinceLastRun
from .constraints.time_window import TimeWindow as TimeWindow
from .declared import declaration as declaration
from .deployment import (
    SyncReport as SyncReport,
    collect as collect,
    load_schedules as load_schedules,
    parse_schedules as parse_schedules,
    plan_sync as plan_sync,
    sync as sync,
)
from .errors import (
    DiscardsEvents as DiscardsEvents,
    InvalidEvent as InvalidEvent,
    InvalidRun as InvalidRun,
    InvalidSchedule as InvalidSchedule,
    KeptByRun as KeptByRun,
    NameTaken as NameTaken,
    RunExists as RunExists,
    RunNotFound as RunNotFound,
    ScheduleExists as ScheduleExists,
    ScheduleNotFound as ScheduleNotFound,
    ScheduleNotReadable as ScheduleNotReadable,
    SchedulingError as SchedulingError,
)
from .events.event_intake import EventIntake as EventIntake, work_is_due as work_is_due
from .events.event_log import Event as Event, EventLog as EventLog, RecordedEvent as RecordedEvent, send_event as send_event
from .explanation import Explanation as Explanation, explain as explain, explain_all as explain_all
from .history import ScheduleEntry as ScheduleEntry, read_history as read_history, read_runs as read_runs
from .launches.run_ends import Runs as Runs, ends_are_due as ends_are_due
from .launches.run_now import run_now as run_now, run_registered as run_registered
from .pending_runs.gate import Gate as Gate
from .pending_runs.gated_runs import (
    GatedRun as GatedRun,
    GatePlace as GatePlace,
    GateState as GateState,
    waiting_at_gates as waiting_at_gates,
)
from .pending_runs.model import (
    PendingQueue as PendingQueue,
    PendingRun as PendingRun,
    PendingState as PendingState,
    QueuedRun as QueuedRun,
)
from .pending_runs.wait_queue import gate_is_due as gate_is_due
from .registered_runs import (
    Became as Became,
    RegisteredRun as RegisteredRun,
    RegisteredRuns as RegisteredRuns,
    StoredRun as StoredRun,
)
from .schedule import (
    LaunchBacklog as LaunchBacklog,
    Missed as Missed,
    Schedule as Schedule,
    Then as Then,
    Timeout as Timeout,
    parse_constraints as parse_constraints,
)
from .scheduler import Scheduler as Scheduler
from .schedules import (
    ScheduleOrigin as ScheduleOrigin,
    Schedules as Schedules,
    StoredSchedule as StoredSchedule,
    Waiting as Waiting,
)
from .sources.polled import PolledSource as PolledSource
from .sources.poller import Poller as Poller
from .sources.source import (
    SourceFinding as SourceFinding,
    check_scheduler as check_scheduler,
    check_sources as check_sources,
    named_assets as named_assets,
    named_dags as named_dags,
)
from .triggers.clock_triggers import ByHand as ByHand, Cron as Cron, Every as Every
from .triggers.event_triggers import (
    AssetEvents as AssetEvents,
    BytesAdded as BytesAdded,
    CommitsAdded as CommitsAdded,
    CustomEvents as CustomEvents,
    FilesAdded as FilesAdded,
    PartitionsAdded as PartitionsAdded,
    RecordsAdded as RecordsAdded,
    RunsFailed as RunsFailed,
    RunsSucceeded as RunsSucceeded,
)
from .triggers.trigger import (
    TRIGGERS as TRIGGERS,
    AllOf as AllOf,
    AnyOf as AnyOf,
    AtLatest as AtLatest,
    Clock as Clock,
    Judgement as Judgement,
    Leaf as Leaf,
    Progress as Progress,
    Since as Since,
    SourceName as SourceName,
    Trigger as Trigger,
    parse_trigger as parse_trigger,
)
