"""When a DAG should run: triggers, run constraints, schedules, events, pending jobs, and the parts that move them.

Importing this room is cheap: a DAG file takes its declarations from here. What needs the store loads when it is first used.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.scheduling.checker import Checker, CheckReport
    from airflow_snowpack.scheduling.clocks import Clocks
    from airflow_snowpack.scheduling.composites import AllOf, AnyOf, Since, parse_trigger
    from airflow_snowpack.scheduling.constraint import OnUnmet
    from airflow_snowpack.scheduling.constraints import (
        ClusterLoad,
        Delay,
        MaxConcurrent,
        MaxRuns,
        PoolSlots,
        SinceLastRun,
        TimeWindow,
    )
    from airflow_snowpack.scheduling.errors import (
        InvalidEvent,
        InvalidSchedule,
        ScheduleExists,
        ScheduleNotFound,
        SchedulingError,
    )
    from airflow_snowpack.scheduling.events import Event, EventLog
    from airflow_snowpack.scheduling.files import load_schedules
    from airflow_snowpack.scheduling.launcher import Launcher, LaunchReport
    from airflow_snowpack.scheduling.leaves import (
        AssetEvents,
        BytesAdded,
        CommitsAdded,
        Cron,
        CustomEvents,
        Every,
        FilesAdded,
        PartitionsAdded,
        RecordsAdded,
        RunsFailed,
        RunsSucceeded,
    )
    from airflow_snowpack.scheduling.pending import PendingJob, PendingState, Reason
    from airflow_snowpack.scheduling.runs import Runs
    from airflow_snowpack.scheduling.schedule import Missed, Schedule, Then, Timeout
    from airflow_snowpack.scheduling.schedules import Origin, Schedules, StoredSchedule
    from airflow_snowpack.scheduling.subscriber import Subscriber
    from airflow_snowpack.scheduling.surroundings import Launch, NotStarted, Snapshot, Starter, Surroundings

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "checker": ["CheckReport", "Checker"],
        "clocks": ["Clocks"],
        "composites": ["AllOf", "AnyOf", "Since", "parse_trigger"],
        "constraint": ["OnUnmet"],
        "constraints": ["ClusterLoad", "Delay", "MaxConcurrent", "MaxRuns", "PoolSlots", "SinceLastRun", "TimeWindow"],
        "errors": ["InvalidEvent", "InvalidSchedule", "ScheduleExists", "ScheduleNotFound", "SchedulingError"],
        "events": ["Event", "EventLog"],
        "files": ["load_schedules"],
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
        "pending": ["PendingJob", "PendingState", "Reason"],
        "runs": ["Runs"],
        "schedule": ["Missed", "Schedule", "Then", "Timeout"],
        "schedules": ["Origin", "Schedules", "StoredSchedule"],
        "subscriber": ["Subscriber"],
        "surroundings": ["Launch", "NotStarted", "Snapshot", "Starter", "Surroundings"],
    },
)
