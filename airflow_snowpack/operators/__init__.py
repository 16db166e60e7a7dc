"""Operators: maintain tables and steer their jobs, guard one's own writes with the same lock, start what schedules want, and
build and publish snapshots.

Most DAGs need only :class:`MaintainTableOperator`, or :class:`ShardedBuildOperator`. Names load when they are first used, so that
a DAG file pays only for what it needs.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.operators.acquire_table_lock import AcquireTableLockOperator as AcquireTableLockOperator
    from airflow_snowpack.operators.build_shards import BuildShardsOperator as BuildShardsOperator
    from airflow_snowpack.operators.cancel_maintenance import CancelMaintenanceOperator as CancelMaintenanceOperator
    from airflow_snowpack.operators.cleanup_builds import CleanupBuildsOperator as CleanupBuildsOperator
    from airflow_snowpack.operators.collect_interim_tables import CollectInterimTablesOperator as CollectInterimTablesOperator
    from airflow_snowpack.operators.dispatcher import SnowpackDispatcherOperator as SnowpackDispatcherOperator
    from airflow_snowpack.operators.maintain_table import MaintainTableOperator as MaintainTableOperator
    from airflow_snowpack.operators.map_partitions import MapPartitionsOperator as MapPartitionsOperator
    from airflow_snowpack.operators.map_rows import MapRowsOperator as MapRowsOperator
    from airflow_snowpack.operators.prune_store import PruneStoreOperator as PruneStoreOperator
    from airflow_snowpack.operators.publish_build import PublishBuildOperator as PublishBuildOperator
    from airflow_snowpack.operators.reduce_rows import ReduceRowsOperator as ReduceRowsOperator
    from airflow_snowpack.operators.release_table_lock import ReleaseTableLockOperator as ReleaseTableLockOperator
    from airflow_snowpack.operators.rollback_build import RollbackBuildOperator as RollbackBuildOperator
    from airflow_snowpack.operators.run_maintenance_job import RunMaintenanceJobOperator as RunMaintenanceJobOperator
    from airflow_snowpack.operators.select_winners import SelectWinnersOperator as SelectWinnersOperator
    from airflow_snowpack.operators.sharded_build import ShardedBuildOperator as ShardedBuildOperator
    from airflow_snowpack.operators.submit_maintenance import SubmitMaintenanceOperator as SubmitMaintenanceOperator
    from airflow_snowpack.operators.sweep import SweepOperator as SweepOperator

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "acquire_table_lock": ["AcquireTableLockOperator"],
        "build_shards": ["BuildShardsOperator"],
        "cancel_maintenance": ["CancelMaintenanceOperator"],
        "cleanup_builds": ["CleanupBuildsOperator"],
        "collect_interim_tables": ["CollectInterimTablesOperator"],
        "dispatcher": ["SnowpackDispatcherOperator"],
        "maintain_table": ["MaintainTableOperator"],
        "map_partitions": ["MapPartitionsOperator"],
        "map_rows": ["MapRowsOperator"],
        "prune_store": ["PruneStoreOperator"],
        "publish_build": ["PublishBuildOperator"],
        "reduce_rows": ["ReduceRowsOperator"],
        "release_table_lock": ["ReleaseTableLockOperator"],
        "rollback_build": ["RollbackBuildOperator"],
        "run_maintenance_job": ["RunMaintenanceJobOperator"],
        "select_winners": ["SelectWinnersOperator"],
        "sharded_build": ["ShardedBuildOperator"],
        "submit_maintenance": ["SubmitMaintenanceOperator"],
        "sweep": ["SweepOperator"],
    },
)
