"""Operators: maintain tables and steer their jobs, guard one's own writes with the same lock, start what schedules want, and
build and publish snapshots.

Most DAGs need only :class:`MaintainTableOperator`, or :class:`ShardedBuildOperator`. Names load when they are first used, so that
a DAG file pays only for what it needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
