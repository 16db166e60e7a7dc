"""Schedules, events and the queue of pending jobs as JSON bodies, for the API and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.api.bodies import Body, moment

if TYPE_CHECKING:
    from airflow_snowpack.scheduling import (
        Explanation,
        Finding,
        PendingRun,
        Reason,
        RecordedEvent,
        ScheduleEntry,
        StoredSchedule,
        SyncReport,
    )
    from airflow_snowpack.scheduling.sources.source import Source
    from airflow_snowpack.scheduling.triggers.trigger import Judgement


def schedule_body(stored: StoredSchedule) -> Body:
    """A schedule; its definition can be changed and sent back."""
    return {
        "name": stored.name,
        "enabled": stored.enabled,
        "origin": stored.origin.value,
        "generation": stored.generation,
        "created_at": moment(stored.created_at),
        "changed_at": moment(stored.changed_at),
        "changed_by": stored.changed_by,
        "problem": stored.problem,
        "definition": definition_of(stored),
    }


def definition_of(stored: StoredSchedule) -> dict[str, Any]:
    """What makes it what it is, and whether it is enabled now rather than as it was declared; as it is, if nobody can read it."""
    said = stored.definition if stored.read is None else stored.read.to_json()
    return {**(said if isinstance(said, dict) else {"definition": said}), "enabled": stored.enabled}


def pending_body(job: PendingRun, problem: str | None = None) -> Body:
    """A pending job.

    :param problem: why its run could not be started yet.
    """
    return {
        "pending_id": job.pending_id,
        "schedule": job.schedule,
        "dag_id": job.dag_id,
        "state": job.state.value,
        "priority": job.priority,
        "created_at": moment(job.created_at),
        "triggered_at": moment(job.triggered_at),
        "expires_at": moment(job.expires_at),
        "next_check_at": moment(job.next_check_at),
        "waits_for": job.waits_for,
        "reasons": [reason_body(reason) for reason in job.reasons],
        "problem": problem,
        "run_id": job.run_id,
        "ended_at": moment(job.ended_at),
        "ended_because": job.ended_because,
    }


def reason_body(reason: Reason) -> Body:
    return {"what": reason.what, "says": reason.text, "met": reason.met, "not_before": moment(reason.not_before)}


def explanation_body(told: Explanation) -> Body:
    """Why a schedule has not run, in values and in words."""
    return {
        "name": told.stored.name,
        "enabled": told.stored.enabled,
        "sentences": told.sentences(),
        "trigger": judgement_body(told.trigger),
        "pending": None if told.pending is None else pending_body(told.pending),
        "launching": None if told.launching is None else pending_body(told.launching, told.problem),
        "next_tick": moment(told.next_tick),
        "deadline": moment(told.deadline),
        "sources": [source_body(source) for source in told.sources],
        "scheduler": {"is_alive": told.scheduler_is_alive, "seen_at": moment(told.scheduler_seen_at)},
        "ended": [pending_body(job) for job in told.ended],
    }


def source_body(source: Source) -> Body:
    """A table or a DAG that a schedule listens to."""
    return {
        "kind": source.kind,
        "name": source.name,
        "read_at": moment(source.read_at),
        "problem": source.problem,
        "asked_at": moment(source.asked_at),
    }


def judgement_body(judgement: Judgement) -> Body:
    """What a trigger is worth, with its parts."""
    return {
        "satisfied": judgement.satisfied,
        "says": judgement.text,
        "have": judgement.have,
        "want": judgement.want,
        "next_at": moment(judgement.next_at),
        "problem": judgement.problem,
        "parts": [judgement_body(part) for part in judgement.parts],
    }


def entry_body(entry: ScheduleEntry) -> Body:
    """One line of a schedule's history."""
    return {
        "id": entry.id,
        "at": moment(entry.at),
        "what": entry.what,
        "pending_id": entry.pending_id,
        "detail": dict(entry.detail),
    }


def event_body(recorded: RecordedEvent) -> Body:
    """An event with its number."""
    event = recorded.event
    return {
        "id": recorded.id,
        "key": event.key,
        "at": moment(event.at),
        "recorded_at": moment(recorded.recorded_at),
        "amounts": dict(event.amounts),
        "detail": dict(event.detail),
        "source_id": event.source_id,
    }


def finding_body(finding: Finding) -> Body:
    return {"schedule": finding.schedule, "problem": finding.problem, "blocks": finding.blocks}


def sync_body(report: SyncReport) -> Body:
    return {
        "created": list(report.created),
        "updated": list(report.updated),
        "deleted": list(report.deleted),
        "left": list(report.left),
    }
