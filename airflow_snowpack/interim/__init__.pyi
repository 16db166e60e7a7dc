from .collection.collector import Collector as Collector
from .collection.sweeper import sweep as sweep
from .handover import TableHandover as TableHandover
from .map_reduce.mapping import map_partitions as map_partitions, map_rows as map_rows
from .map_reduce.reduction import reduce_rows as reduce_rows
from .model import OutputOptions as OutputOptions, TaskAttempt as TaskAttempt
from .refs import TableRef as TableRef, ViewRef as ViewRef, named_table as named_table, read_ref as read_ref
from .registry import InterimRegistry as InterimRegistry, Output as Output
