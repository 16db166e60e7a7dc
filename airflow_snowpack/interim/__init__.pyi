from .collection.collector import Collector as Collector
from .collection.model import Collected as Collected, RunStates as RunStates
from .collection.sweeper import SweepAction as SweepAction, sweep as sweep
from .handover import Handover as Handover
from .map_reduce.mapping import map_partitions as map_partitions, map_rows as map_rows
from .map_reduce.reduction import reduce_rows as reduce_rows
from .model import InterimPolicy as InterimPolicy, OutputOptions as OutputOptions, TaskAttempt as TaskAttempt
from .names import Scope as Scope
from .refs import (
    TableRef as TableRef,
    ViewRef as ViewRef,
    find_refs as find_refs,
    named_table as named_table,
    read_ref as read_ref,
    replace_refs as replace_refs,
)
from .registry import InterimRegistry as InterimRegistry
