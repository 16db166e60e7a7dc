"""Check a request's options against the table that they are for: its columns, its sort order.

    check_against(table, "demo.flights", {"rewrite_data_files": {"where": "month = 3"}})

The invariant: every way to submit, a dry run included, gives the same verdict, and gives it before a job exists. What is refused
here would fail on Spark, at every try.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.maintenance.condition import check_condition
from airflow_snowpack.maintenance.condition_columns import has_column
from airflow_snowpack.maintenance.condition_tokens import UnusableCondition
from airflow_snowpack.maintenance.errors import InvalidPredicate
from airflow_snowpack.maintenance.options import parse_all_options, refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyiceberg.table import Table

    from airflow_snowpack.maintenance.options import ActionOptions

TABLE_OPTIONS = frozenset({"where", "strategy", "sort_order", "zorder_columns", "branch", "snapshot_ids"})
"""The options that can be checked only against the table."""


def check_against(table: Table, name: str, options: Mapping[str, Mapping[str, Any]]) -> None:
    """Check the options of each action against the table.

    :param name: ``database.table``, for the message.
    :raises InvalidPredicate: a ``where`` that cannot be evaluated.
    :raises InvalidOption: another option that the table does not allow.
    """
    for action, parsed in parse_all_options(options).items():
        where = getattr(parsed, "where", None)
        if where is not None:
            try:
                check_condition(where, table.schema())
            except UnusableCondition as problem:
                raise InvalidPredicate(action, name, where, str(problem)) from problem
        _check_order(table, name, parsed)
        _check_snapshots(table, name, parsed)


def _check_order(table: Table, name: str, options: ActionOptions) -> None:
    order = getattr(options, "sort_order", None)
    named = {
        "sort_order": [part.split()[0] for part in order.split(",")] if order else [],
        "zorder_columns": getattr(options, "zorder_columns", ()),
    }
    for option, columns in named.items():
        for column in columns:
            if not has_column(table.schema(), column):
                raise refused(options, option, f"names {column!r}, and {name} has no such column")
    if getattr(options, "strategy", None) == "sort" and not order and table.sort_order().is_unsorted:
        raise refused(options, "sort_order", f"is needed for strategy 'sort', because {name} has no sort order of its own")


def _check_snapshots(table: Table, name: str, options: ActionOptions) -> None:
    refs = table.metadata.refs
    branch = getattr(options, "branch", None)
    if branch is not None and (branch not in refs or refs[branch].snapshot_ref_type != "branch"):
        raise refused(options, "branch", f"names {branch!r}, and {name} has no such branch")
    known = {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
    heads = {ref.snapshot_id: ref_name for ref_name, ref in refs.items()}
    for snapshot_id in getattr(options, "snapshot_ids", ()):
        # Iceberg itself ignores an id that it does not know.
        if snapshot_id not in known:
            raise refused(options, "snapshot_ids", f"names {snapshot_id}, and {name} has no such snapshot")
        if snapshot_id in heads:
            raise refused(options, "snapshot_ids", f"names {snapshot_id}, which {heads[snapshot_id]!r} of {name} refers to")
