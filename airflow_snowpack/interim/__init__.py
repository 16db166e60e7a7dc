"""Interim tables: Iceberg tables that are handed from task to task, and vanish when nobody needs them any more.

    registry = InterimRegistry(store)
    writing = registry.begin(holder.slot(), holder=holder, catalog="lake")                      # then the table is created
    ref = registry.hand_on(writing, snapshot_id=…, rows=…, consumers=["report"])
    reading = registry.consume([ref], holder=consumer)                                          # and released at its end
    Collector(registry, run_states, open_catalog).run()                                         # the one authority that drops

Names load when they are first used: a DAG file that mentions a ref needs neither the registry nor its database.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.interim.collected import Collected as Collected
    from airflow_snowpack.interim.collector import Collector as Collector
    from airflow_snowpack.interim.handover import Handover as Handover
    from airflow_snowpack.interim.handover import Keeping as Keeping
    from airflow_snowpack.interim.model import Holder as Holder
    from airflow_snowpack.interim.model import InterimPolicy as InterimPolicy
    from airflow_snowpack.interim.model import Slot as Slot
    from airflow_snowpack.interim.model import TaskKey as TaskKey
    from airflow_snowpack.interim.named import named_table as named_table
    from airflow_snowpack.interim.partition_mapping import map_partitions as map_partitions
    from airflow_snowpack.interim.preservation import Preservation as Preservation
    from airflow_snowpack.interim.preservation import resolve_preservation as resolve_preservation
    from airflow_snowpack.interim.reduction import reduce_rows as reduce_rows
    from airflow_snowpack.interim.refs import TableRef as TableRef
    from airflow_snowpack.interim.refs import ViewRef as ViewRef
    from airflow_snowpack.interim.refs import find_refs as find_refs
    from airflow_snowpack.interim.refs import read_ref as read_ref
    from airflow_snowpack.interim.refs import replace_refs as replace_refs
    from airflow_snowpack.interim.registry import InterimRegistry as InterimRegistry
    from airflow_snowpack.interim.row_mapping import map_rows as map_rows
    from airflow_snowpack.interim.run_states import RunStates as RunStates
    from airflow_snowpack.interim.scope import Scope as Scope
    from airflow_snowpack.interim.sweeper import SweepAction as SweepAction
    from airflow_snowpack.interim.sweeper import sweep as sweep

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "collected": ["Collected"],
        "collector": ["Collector"],
        "handover": ["Handover", "Keeping"],
        "model": ["Holder", "InterimPolicy", "Slot", "TaskKey"],
        "named": ["named_table"],
        "partition_mapping": ["map_partitions"],
        "preservation": ["Preservation", "resolve_preservation"],
        "reduction": ["reduce_rows"],
        "refs": ["TableRef", "ViewRef", "find_refs", "read_ref", "replace_refs"],
        "registry": ["InterimRegistry"],
        "row_mapping": ["map_rows"],
        "run_states": ["RunStates"],
        "scope": ["Scope"],
        "sweeper": ["SweepAction", "sweep"],
    },
)
