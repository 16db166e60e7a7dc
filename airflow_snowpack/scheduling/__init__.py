"""When a DAG should run: triggers, run constraints, schedules, events, pending jobs, and the parts that move them.

Importing this room is cheap: a DAG file takes its declarations from here. What needs the store loads when it is first used.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.scheduling.checker import Checker as Checker
    from airflow_snowpack.scheduling.checker import CheckReport as CheckReport
    from airflow_snowpack.scheduling.clocks import Clocks as Clocks
    from airflow_snowpack.scheduling.collecting import collect as collect
    from airflow_snowpack.scheduling.composites import AllOf as AllOf
    from airflow_snowpack.scheduling.composites import AnyOf as AnyOf
    from airflow_snowpack.scheduling.composites import AtLatest as AtLatest
    from airflow_snowpack.scheduling.composites import Since as Since
    from airflow_snowpack.scheduling.composites import parse_trigger as parse_trigger
    from airflow_snowpack.scheduling.constraint import OnUnmet as OnUnmet
    from airflow_snowpack.scheduling.constraints import ClusterLoad as ClusterLoad
    from airflow_snowpack.scheduling.constraints import Delay as Delay
    from airflow_snowpack.scheduling.constraints import MaxConcurrent as MaxConcurrent
    from airflow_snowpack.scheduling.constraints import MaxRuns as MaxRuns
    from airflow_snowpack.scheduling.constraints import PoolSlots as PoolSlots
    from airflow_snowpack.scheduling.constraints import SinceLastRun as SinceLastRun
    from airflow_snowpack.scheduling.constraints import TimeWindow as TimeWindow
    from airflow_snowpack.scheduling.deployment import SyncReport as SyncReport
    from airflow_snowpack.scheduling.deployment import plan_sync as plan_sync
    from airflow_snowpack.scheduling.deployment import sync as sync
    from airflow_snowpack.scheduling.errors import InvalidEvent as InvalidEvent
    from airflow_snowpack.scheduling.errors import InvalidPendingCursor as InvalidPendingCursor
    from airflow_snowpack.scheduling.errors import InvalidRun as InvalidRun
    from airflow_snowpack.scheduling.errors import InvalidSchedule as InvalidSchedule
    from airflow_snowpack.scheduling.errors import KeptByRun as KeptByRun
    from airflow_snowpack.scheduling.errors import NameTaken as NameTaken
    from airflow_snowpack.scheduling.errors import RunExists as RunExists
    from airflow_snowpack.scheduling.errors import RunNotFound as RunNotFound
    from airflow_snowpack.scheduling.errors import ScheduleExists as ScheduleExists
    from airflow_snowpack.scheduling.errors import ScheduleNotFound as ScheduleNotFound
    from airflow_snowpack.scheduling.errors import ScheduleNotReadable as ScheduleNotReadable
    from airflow_snowpack.scheduling.errors import SchedulingError as SchedulingError
    from airflow_snowpack.scheduling.events import Event as Event
    from airflow_snowpack.scheduling.events import EventLog as EventLog
    from airflow_snowpack.scheduling.events import RecordedEvent as RecordedEvent
    from airflow_snowpack.scheduling.explanation import Explanation as Explanation
    from airflow_snowpack.scheduling.explanation import explain as explain
    from airflow_snowpack.scheduling.explanation import explain_all as explain_all
    from airflow_snowpack.scheduling.files import load_schedules as load_schedules
    from airflow_snowpack.scheduling.files import parse_schedules as parse_schedules
    from airflow_snowpack.scheduling.gate import Gate as Gate
    from airflow_snowpack.scheduling.gated_runs import GatedRun as GatedRun
    from airflow_snowpack.scheduling.gated_runs import GatePlace as GatePlace
    from airflow_snowpack.scheduling.gated_runs import GateState as GateState
    from airflow_snowpack.scheduling.gated_runs import longest_at_gates as longest_at_gates
    from airflow_snowpack.scheduling.history import ScheduleEntry as ScheduleEntry
    from airflow_snowpack.scheduling.history import read_history as read_history
    from airflow_snowpack.scheduling.intake import Intake as Intake
    from airflow_snowpack.scheduling.intake import work_is_due as work_is_due
    from airflow_snowpack.scheduling.launched import LaunchedRun as LaunchedRun
    from airflow_snowpack.scheduling.launched import read_runs as read_runs
    from airflow_snowpack.scheduling.launcher import Launcher as Launcher
    from airflow_snowpack.scheduling.launcher import LaunchReport as LaunchReport
    from airflow_snowpack.scheduling.leaves import AssetEvents as AssetEvents
    from airflow_snowpack.scheduling.leaves import BytesAdded as BytesAdded
    from airflow_snowpack.scheduling.leaves import CommitsAdded as CommitsAdded
    from airflow_snowpack.scheduling.leaves import Cron as Cron
    from airflow_snowpack.scheduling.leaves import CustomEvents as CustomEvents
    from airflow_snowpack.scheduling.leaves import Every as Every
    from airflow_snowpack.scheduling.leaves import FilesAdded as FilesAdded
    from airflow_snowpack.scheduling.leaves import PartitionsAdded as PartitionsAdded
    from airflow_snowpack.scheduling.leaves import RecordsAdded as RecordsAdded
    from airflow_snowpack.scheduling.leaves import RunsFailed as RunsFailed
    from airflow_snowpack.scheduling.leaves import RunsSucceeded as RunsSucceeded
    from airflow_snowpack.scheduling.line import Line as Line
    from airflow_snowpack.scheduling.pending import PendingJob as PendingJob
    from airflow_snowpack.scheduling.pending import PendingState as PendingState
    from airflow_snowpack.scheduling.pending import Reason as Reason
    from airflow_snowpack.scheduling.pending_queue import PendingPage as PendingPage
    from airflow_snowpack.scheduling.pending_queue import PendingQueue as PendingQueue
    from airflow_snowpack.scheduling.pending_queue import QueuedJob as QueuedJob
    from airflow_snowpack.scheduling.poller import Poller as Poller
    from airflow_snowpack.scheduling.poller import PollReport as PollReport
    from airflow_snowpack.scheduling.polling import POLLER_PERIOD as POLLER_PERIOD
    from airflow_snowpack.scheduling.polling import Polling as Polling
    from airflow_snowpack.scheduling.registered_run import RegisteredRun as RegisteredRun
    from airflow_snowpack.scheduling.registered_runs import Became as Became
    from airflow_snowpack.scheduling.registered_runs import RegisteredRuns as RegisteredRuns
    from airflow_snowpack.scheduling.registered_runs import StoredRun as StoredRun
    from airflow_snowpack.scheduling.rounds import RoundReport as RoundReport
    from airflow_snowpack.scheduling.rounds import Rounds as Rounds
    from airflow_snowpack.scheduling.run_ends import RunEnds as RunEnds
    from airflow_snowpack.scheduling.run_ends import ends_are_due as ends_are_due
    from airflow_snowpack.scheduling.run_now import run_now as run_now
    from airflow_snowpack.scheduling.run_registered import run_registered as run_registered
    from airflow_snowpack.scheduling.runs import Runs as Runs
    from airflow_snowpack.scheduling.schedule import LaunchBacklog as LaunchBacklog
    from airflow_snowpack.scheduling.schedule import Missed as Missed
    from airflow_snowpack.scheduling.schedule import Schedule as Schedule
    from airflow_snowpack.scheduling.schedule import Then as Then
    from airflow_snowpack.scheduling.schedule import Timeout as Timeout
    from airflow_snowpack.scheduling.schedule import parse_constraints as parse_constraints
    from airflow_snowpack.scheduling.schedule_writer import Origin as Origin
    from airflow_snowpack.scheduling.schedules import Schedules as Schedules
    from airflow_snowpack.scheduling.schedules import StoredSchedule as StoredSchedule
    from airflow_snowpack.scheduling.sending import Sent as Sent
    from airflow_snowpack.scheduling.sending import send_event as send_event
    from airflow_snowpack.scheduling.source_check import Finding as Finding
    from airflow_snowpack.scheduling.source_check import check_scheduler as check_scheduler
    from airflow_snowpack.scheduling.source_check import check_sources as check_sources
    from airflow_snowpack.scheduling.source_check import named_dags as named_dags
    from airflow_snowpack.scheduling.subscriber import Subscriber as Subscriber
    from airflow_snowpack.scheduling.surroundings import DagRuns as DagRuns
    from airflow_snowpack.scheduling.surroundings import EndedRun as EndedRun
    from airflow_snowpack.scheduling.surroundings import EndsAsked as EndsAsked
    from airflow_snowpack.scheduling.surroundings import EndsFound as EndsFound
    from airflow_snowpack.scheduling.surroundings import FreeSlots as FreeSlots
    from airflow_snowpack.scheduling.surroundings import Launch as Launch
    from airflow_snowpack.scheduling.surroundings import NotKnown as NotKnown
    from airflow_snowpack.scheduling.surroundings import NotStarted as NotStarted
    from airflow_snowpack.scheduling.surroundings import Snapshot as Snapshot
    from airflow_snowpack.scheduling.surroundings import Starter as Starter
    from airflow_snowpack.scheduling.surroundings import Surroundings as Surroundings

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "checker": ["CheckReport", "Checker"],
        "clocks": ["Clocks"],
        "collecting": ["collect"],
        "composites": ["AllOf", "AnyOf", "AtLatest", "Since", "parse_trigger"],
        "constraint": ["OnUnmet"],
        "constraints": ["ClusterLoad", "Delay", "MaxConcurrent", "MaxRuns", "PoolSlots", "SinceLastRun", "TimeWindow"],
        "errors": [
            "InvalidEvent",
            "InvalidPendingCursor",
            "InvalidRun",
            "InvalidSchedule",
            "KeptByRun",
            "NameTaken",
            "RunExists",
            "RunNotFound",
            "ScheduleExists",
            "ScheduleNotFound",
            "ScheduleNotReadable",
            "SchedulingError",
        ],
        "events": ["Event", "EventLog", "RecordedEvent"],
        "explanation": ["Explanation", "explain", "explain_all"],
        "files": ["load_schedules", "parse_schedules"],
        "gate": ["Gate"],
        "gated_runs": ["GatePlace", "GateState", "GatedRun", "longest_at_gates"],
        "history": ["ScheduleEntry", "read_history"],
        "intake": ["Intake", "work_is_due"],
        "launched": ["LaunchedRun", "read_runs"],
        "launcher": ["LaunchReport", "Launcher"],
        "leaves": [
            "AssetEvents",
            "BytesAdded",
            "CommitsAdded",
            "Cron",
            "CustomEvents",
            "Every",
            "FilesAdded",
            "PartitionsAdded",
            "RecordsAdded",
            "RunsFailed",
            "RunsSucceeded",
        ],
        "line": ["Line"],
        "pending": ["PendingJob", "PendingState", "Reason"],
        "pending_queue": ["PendingPage", "PendingQueue", "QueuedJob"],
        "poller": ["PollReport", "Poller"],
        "polling": ["POLLER_PERIOD", "Polling"],
        "registered_run": ["RegisteredRun"],
        "registered_runs": ["Became", "RegisteredRuns", "StoredRun"],
        "rounds": ["RoundReport", "Rounds"],
        "run_now": ["run_now"],
        "run_registered": ["run_registered"],
        "run_ends": ["RunEnds", "ends_are_due"],
        "runs": ["Runs"],
        "schedule": ["LaunchBacklog", "Missed", "Schedule", "Then", "Timeout", "parse_constraints"],
        "schedule_writer": ["Origin"],
        "schedules": ["Schedules", "StoredSchedule"],
        "sending": ["Sent", "send_event"],
        "source_check": ["Finding", "check_scheduler", "check_sources", "named_dags"],
        "subscriber": ["Subscriber"],
        "deployment": ["SyncReport", "plan_sync", "sync"],
        "surroundings": [
            "DagRuns",
            "EndedRun",
            "EndsAsked",
            "EndsFound",
            "FreeSlots",
            "Launch",
            "NotKnown",
            "NotStarted",
            "Snapshot",
            "Starter",
            "Surroundings",
        ],
    },
)
