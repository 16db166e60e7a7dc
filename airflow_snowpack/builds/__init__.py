"""Sharded snapshot builds: attempts, winners, manifest, run registry, and cleanup in three phases.

    build = Build(BuildRegistry(store), Storage("s3://lake/builds/features"))
    build.run(SparkSource(df), BuildSpec(dataset="features", key="user_id", sharding=Sharding.hash(8)), as_of=interval_end)

    SnapshotReader("s3://lake/builds/features").get(4711)

Names load when they are first used: a Spark task that writes a shard needs neither the registry nor its database.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.builds.build import Build as Build
    from airflow_snowpack.builds.build_source import RowsSource as RowsSource
    from airflow_snowpack.builds.build_source import SparkSource as SparkSource
    from airflow_snowpack.builds.build_spec import BuildSpec as BuildSpec
    from airflow_snowpack.builds.model import Retention as Retention
    from airflow_snowpack.builds.model import ShardFormat as ShardFormat
    from airflow_snowpack.builds.model import Sharding as Sharding
    from airflow_snowpack.builds.reader import SnapshotReader as SnapshotReader
    from airflow_snowpack.builds.registered import BuildPolicy as BuildPolicy
    from airflow_snowpack.builds.registry import BuildRegistry as BuildRegistry
    from airflow_snowpack.builds.spark_reader import read_build as read_build
    from airflow_snowpack.builds.storage import Storage as Storage

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "build": ["Build"],
        "build_source": ["RowsSource", "SparkSource"],
        "build_spec": ["BuildSpec"],
        "model": ["Retention", "ShardFormat", "Sharding"],
        "reader": ["SnapshotReader"],
        "registered": ["BuildPolicy"],
        "registry": ["BuildRegistry"],
        "spark_reader": ["read_build"],
        "storage": ["Storage"],
    },
)
