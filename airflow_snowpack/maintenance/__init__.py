"""What a job does to a table: the five actions, their options, the plan of a dry run, and the engine that runs them on Spark.

Importing this room is cheap: a DAG file takes :class:`Action` from here. What needs Spark, a catalog or the store loads when it
is first used.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.maintenance.action import DEFAULT_ORDER, Action, in_order, parse_actions, parse_order
    from airflow_snowpack.maintenance.errors import InvalidActionOrder, InvalidOption, NoActions, UnknownAction
    from airflow_snowpack.maintenance.options import (
        ActionOptions,
        ExpireSnapshots,
        RemoveOrphanFiles,
        RewriteDataFiles,
        RewriteManifests,
        RewritePositionDeleteFiles,
        Strategy,
        parse_all_options,
        parse_options,
    )
    from airflow_snowpack.maintenance.orphan_removal import OrphanRemovalRefused
    from airflow_snowpack.maintenance.plan import plan_action
    from airflow_snowpack.maintenance.spark_engine import SparkEngine

__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "action": ["DEFAULT_ORDER", "Action", "in_order", "parse_actions", "parse_order"],
        "errors": ["InvalidActionOrder", "InvalidOption", "NoActions", "UnknownAction"],
        "options": [
            "ActionOptions",
            "ExpireSnapshots",
            "RemoveOrphanFiles",
            "RewriteDataFiles",
            "RewriteManifests",
            "RewritePositionDeleteFiles",
            "Strategy",
            "parse_all_options",
            "parse_options",
        ],
        "orphan_removal": ["OrphanRemovalRefused"],
        "plan": ["plan_action"],
        "spark_engine": ["SparkEngine"],
    },
)

__all__ = [
    "DEFAULT_ORDER",
    "Action",
    "ActionOptions",
    "ExpireSnapshots",
    "InvalidActionOrder",
    "InvalidOption",
    "NoActions",
    "OrphanRemovalRefused",
    "RemoveOrphanFiles",
    "RewriteDataFiles",
    "RewriteManifests",
    "RewritePositionDeleteFiles",
    "SparkEngine",
    "Strategy",
    "UnknownAction",
    "in_order",
    "parse_actions",
    "parse_all_options",
    "parse_options",
    "parse_order",
    "plan_action",
]
