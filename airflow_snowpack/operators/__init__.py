"""Operators: maintain tables, run and cancel jobs, lock tables, start the DAG runs of schedules, build snapshots, map tables.

Most DAGs need only :class:`MaintainTableOperator` or :class:`ShardedBuildOperator`. Names load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
