"""What a task leaves in XCom about a build: plain values, a page at most however many shards and objects there are."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_snowpack.builds.model import (
        CleanupAction,
        Manifest,
    )
    from airflow_snowpack.builds.registry.model import BuildRun, PublishOutcome

MOST_PROBLEMS = 20
MOST_PATHS = 50


def outcome_report(outcome: PublishOutcome) -> dict[str, Any]:
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


def published_report(outcome: PublishOutcome, manifest: Manifest) -> dict[str, Any]:
    """The same, with the numbers of the build."""
    return outcome_report(outcome) | manifest_numbers(manifest)


def run_report(run: BuildRun, outcome: PublishOutcome) -> dict[str, Any]:
    """The same, with what the registry knows of the run."""
    numbers = {"as_of": run.as_of.isoformat(), "shards": run.num_shards, "rows": run.rows, "bytes": run.bytes}
    return outcome_report(outcome) | numbers


def manifest_numbers(manifest: Manifest) -> dict[str, Any]:
    """How large a build is, and its largest shard against the mean: 1.0 is even."""
    shards = len(manifest.shards)
    largest = max((shard.rows for shard in manifest.shards), default=0)
    return {
        "as_of": manifest.as_of.isoformat(),
        "shards": shards,
        "rows": manifest.rows,
        "bytes": manifest.bytes,
        "skew": round(largest * shards / manifest.rows, 2) if manifest.rows else None,
    }


def cleanup_report(actions: Sequence[CleanupAction], *, dry_run: bool) -> dict[str, Any]:
    """What was deleted or, in a dry run, would be: how much of it in each phase, the first paths, and what could not be."""
    problems = [f"{action.path}: {action.error}" for action in actions if action.error]
    return {
        "dry_run": dry_run,
        **cleanup_numbers(actions),
        "paths": [action.path for action in actions[:MOST_PATHS]],
        "problems": problems[:MOST_PROBLEMS],
    }


def cleanup_numbers(actions: Sequence[CleanupAction]) -> dict[str, Any]:
    """The same without paths."""
    return {
        "actions": dict(Counter(action.phase.value for action in actions)),
        "objects": sum(action.objects or 0 for action in actions),
        "bytes": sum(action.bytes or 0 for action in actions),
        "failed": sum(1 for action in actions if action.error),
    }
