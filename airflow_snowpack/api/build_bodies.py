"""Builds as JSON bodies, for the API and the command line alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_snowpack.api.bodies import Body, moment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_snowpack.builds.model import (
        CleanupAction,
        Key,
        Manifest,
    )
    from airflow_snowpack.builds.registry.model import BuildDataset, BuildRun, Publication, PublishOutcome
    from airflow_snowpack.builds.run_inspection import AttemptInspection, RunInspection, ShardInspection


def dataset_body(dataset: BuildDataset) -> Body:
    """A dataset."""
    return {
        "dataset": dataset.dataset,
        "url": dataset.url,
        "created_at": moment(dataset.created_at),
        "publication": dataset.publication,
        "current_run": dataset.current_run,
        "moved_at": moment(dataset.moved_at),
        "newest_as_of": moment(dataset.newest_as_of),
        "held_by": dataset.locked_by,
        "held_until": moment(dataset.locked_until),
    }


def run_body(run: BuildRun, current_run: str | None) -> Body:
    """A run.

    :param current_run: the run that readers see.
    """
    return {
        "dataset": run.dataset,
        "run_id": run.run_id,
        "current": run.run_id == current_run,
        "status": run.status.value,
        "as_of": moment(run.as_of),
        "sequence": run.sequence,
        "owner": run.owner,
        "holder": run.holder,
        "lease_until": moment(run.lease_until),
        "started_at": moment(run.started_at),
        "finished_at": moment(run.finished_at),
        "num_shards": run.num_shards,
        "rows": run.rows,
        "bytes": run.bytes,
        "error": run.error,
        "manifest": run.manifest,
        "losers_left": run.losers_left,
        "deleted_at": moment(run.deleted_at),
    }


def publication_body(publication: Publication) -> Body:
    """A move of the pointer."""
    return {
        "publication": publication.number,
        "run_id": publication.run_id,
        "kind": publication.kind.value,
        "manifest": publication.manifest,
        "at": moment(publication.at),
        "by": publication.by,
    }


def seen_body(seen: RunInspection, current_run: str | None) -> Body:
    """A run with a page of its shards."""
    return {
        **run_body(seen.run, current_run),
        "problem": seen.problem,
        "build": None if seen.manifest is None else manifest_body(seen.manifest),
        "shards": [shard_body(shard) for shard in seen.shards],
        "next": seen.shards[-1].shard_id if seen.more and seen.shards else None,
    }


def manifest_body(manifest: Manifest) -> Body:
    """What a manifest says of the build as a whole."""
    sharding = manifest.sharding
    return {
        "key": {"column": manifest.key_column, "type": manifest.key_type.value},
        "sharding": {"kind": sharding.kind.value, "column": sharding.column, "sql": sharding.sql},
        "shard_format": manifest.shard_format.value,
        "columns": [{"name": name, "type": kind} for name, kind in manifest.columns],
        "sources": [dict(source) for source in manifest.sources],
        "created_at": moment(manifest.created_at),
        "previous": manifest.previous,
    }


def shard_body(shard: ShardInspection) -> Body:
    """A shard, its winner, and all attempts at it that are in the storage."""
    winner = shard.winner
    return {
        "shard_id": shard.shard_id,
        "winner": None
        if winner is None
        else {
            "url": winner.url,
            "attempt": winner.attempt,
            "task_attempt_id": winner.task_attempt_id,
            "rows": winner.rows,
            "bytes": winner.bytes,
            "min_key": key_text(winner.min_key),
            "max_key": key_text(winner.max_key),
            "checksum": winner.checksum,
        },
        "attempts": [attempt_body(attempt) for attempt in shard.attempts],
    }


def attempt_body(attempt: AttemptInspection) -> Body:
    """An attempt's folder."""
    return {
        "folder": attempt.folder,
        "attempt": attempt.attempt,
        "complete": attempt.complete,
        "won": attempt.won,
        "objects": attempt.objects,
        "bytes": attempt.bytes,
    }


def outcome_body(outcome: PublishOutcome) -> Body:
    """How a publication or a rollback ended."""
    return {
        "dataset": outcome.dataset,
        "run_id": outcome.run_id,
        "manifest": outcome.manifest,
        "moved": outcome.moved,
        "publication": outcome.publication,
        "reason": outcome.reason,
        "recorded": outcome.recorded,
    }


def cleanup_body(dataset: str, actions: Sequence[CleanupAction], *, dry_run: bool) -> Body:
    """What cleanup deleted, or would delete."""
    return {
        "dataset": dataset,
        "dry_run": dry_run,
        "done": True,
        "actions": [action_body(action) for action in actions],
        "objects": sum(action.objects or 0 for action in actions),
        "bytes": sum(action.bytes or 0 for action in actions),
        "failed": sum(action.error is not None for action in actions),
    }


def action_body(action: CleanupAction) -> Body:
    """One deletion."""
    return {
        "phase": action.phase.value,
        "run_id": action.run_id,
        "shard_id": action.shard_id,
        "path": action.path,
        "reason": action.reason,
        "objects": action.objects,
        "bytes": action.bytes,
        "error": action.error,
    }


def key_text(key: Key | None) -> str | None:
    """A key for people; bytes in hexadecimal."""
    return None if key is None else key.hex() if isinstance(key, bytes) else str(key)
