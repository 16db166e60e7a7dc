"""The five ``CALL`` statements.

    >>> call = procedure_call(table, RewriteManifests(), Attribution("airflow_snowpack", job_id))
    >>> session.sql(call.sql, args=call.args).collect()

The invariant: nothing that a caller gave is ever part of the SQL text. The table, predicates, columns, numbers and moments are
bound to parameter markers; the text holds our own words, the catalog's checked and quoted name, and a comment that names
the origin of a statement, written so that nothing in it can end the comment or be substituted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.options import (
    ActionOptions,
    ExpireSnapshots,
    RemoveOrphanFiles,
    RewriteDataFiles,
    RewriteManifests,
    RewritePositionDeleteFiles,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_snowpack.iceberg.names import TableName

LONG_AGO = datetime(1970, 1, 2, tzinfo=UTC)
# Iceberg's name for "how many commits of partial progress may fail before the procedure fails".
MAX_FAILED_COMMITS = "partial-progress.max-failed-commits"


@dataclass(frozen=True, slots=True)
class Attribution:
    """The job of a statement; it is written as JSON into the statement's leading comment."""

    app: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Call:
    """A statement and what is bound to its markers."""

    sql: str
    args: Mapping[str, Any] = field(default_factory=dict)


def rewrite_data_files(table: TableName, options: RewriteDataFiles, by: Attribution, *, strict: bool = False) -> Call:
    """Compact data files.

    :param strict: fail, instead of returning as usual, when a commit of partial progress did not land.
    """
    settings = options.procedure_options()
    if strict and options.partial_progress:
        settings[MAX_FAILED_COMMITS] = "0"
    arguments = {
        "strategy": options.strategy_argument,
        "sort_order": options.sort_order_argument,
        "where": options.where,
        "branch": options.branch,
    }
    return _call(table, options, by, arguments, settings)


def rewrite_position_delete_files(table: TableName, options: RewritePositionDeleteFiles, by: Attribution) -> Call:
    """Compact position-delete files."""
    return _call(table, options, by, {"where": options.where}, options.procedure_options())


def rewrite_manifests(table: TableName, options: RewriteManifests, by: Attribution) -> Call:
    """Compact manifests."""
    return _call(
        table, options, by, {"use_caching": options.use_caching, "spec_id": options.spec_id, "sort_by": options.sort_by or None}
    )


def expire_snapshots(table: TableName, options: ExpireSnapshots, by: Attribution, *, now: datetime) -> Call:
    """Forget snapshots that are older than the options' age at this moment, or exactly those that the options name."""
    arguments = {
        # None is that old, so that nothing goes beside the snapshots that are named.
        "older_than": LONG_AGO if options.snapshot_ids else now - options.max_age,
        "retain_last": options.retain_last,
        "snapshot_ids": options.snapshot_ids or None,
        "clean_expired_metadata": options.clean_expired_metadata,
        "stream_results": options.stream_results,
        "max_concurrent_deletes": options.max_concurrent_deletes,
    }
    return _call(table, options, by, arguments)


def plan_orphan_removal(
    table: TableName, options: RemoveOrphanFiles, by: Attribution, *, now: datetime, prefix_listing: bool
) -> Call:
    """List what would be removed."""
    arguments = {
        "older_than": now - options.older_than,
        "location": options.location,
        "dry_run": True,
        "prefix_listing": prefix_listing or None,
        **_prefixes(options),
    }
    return _call(table, options, by, arguments)


def remove_planned_orphans(
    table: TableName, options: RemoveOrphanFiles, by: Attribution, *, now: datetime, plan_view: str, location: str
) -> Call:
    """Remove the files of a plan, those that no metadata names since either.

    :param plan_view: a temporary view of ``file_path`` and ``last_modified``; no other files are considered.
    :param location: what the paths of the plan begin with; the procedure leaves out any other.
    """
    arguments = {
        "older_than": now - options.older_than,
        "location": location,
        "file_list_view": plan_view,
        "max_concurrent_deletes": options.max_concurrent_deletes,
        **_prefixes(options),
    }
    return _call(table, options, by, arguments)


def _prefixes(options: RemoveOrphanFiles) -> dict[str, Any]:
    """How paths that differ in scheme or authority alone are compared; the plan and the removal must agree."""
    return {
        "prefix_mismatch_mode": options.prefix_mismatch_mode,
        "equal_schemes": dict(options.equal_schemes) or None,
        "equal_authorities": dict(options.equal_authorities) or None,
    }


def _call(
    table: TableName,
    options: ActionOptions,
    by: Attribution,
    arguments: Mapping[str, Any],
    settings: Mapping[str, str] | None = None,
) -> Call:
    """A statement of the arguments that are set; ``None`` leaves the procedure its own default."""
    args: dict[str, Any] = {}
    parts = []
    for name, value in {"table": table.quoted, **arguments}.items():
        if value is not None:
            parts.append(f"{name} => {_marked(name, value, args)}")
    if settings:
        markers = {f"setting_{number}": key for number, key in enumerate(settings)}
        args |= {marker: settings[key] for marker, key in markers.items()}
        entries = ", ".join(f"'{key}', :{marker}" for marker, key in markers.items())
        parts.append(f"options => map({entries})")
    sql = f"{_comment(table, options, by)} CALL `{table.catalog}`.system.{options.action.value}({', '.join(parts)})"
    return Call(sql, args)


def _marked(name: str, value: Any, args: dict[str, Any]) -> str:
    """The markers of a value, which is added to the arguments; of a list or a map, one marker for each element."""
    if isinstance(value, dict):
        elements = [each for pair in value.items() for each in pair]
    elif isinstance(value, tuple):
        elements = list(value)
    else:
        args[name] = value.value if isinstance(value, StrEnum) else value
        return f":{name}"
    markers = {f"{name}_{number}": each for number, each in enumerate(elements)}
    args |= markers
    # A small number would be bound as an integer, and an id is a long.
    cast = "CAST(:{} AS BIGINT)" if isinstance(elements[0], int) else ":{}"
    return f"{'map' if isinstance(value, dict) else 'array'}({', '.join(cast.format(marker) for marker in markers)})"


def _comment(table: TableName, options: ActionOptions, by: Attribution) -> str:
    origin = json.dumps({"app": by.app, "table": str(table), "action": options.action.value, "job_id": by.job_id})
    # A slash could end or nest the comment, a dollar sign could start a ${substitution}; JSON can spell both otherwise.
    harmless = origin.replace("/", "\\u002f").replace("$", "\\u0024")
    return f"/* {harmless} */"
