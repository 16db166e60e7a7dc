"""Sharded snapshot builds: write shards, publish them as the current build, read rows by key, and clean up.

    build = Build(BuildRegistry(store), Storage("s3://lake/builds/features"))
    build.run(SparkSource(df), BuildSpec(dataset="features", key="user_id", sharding=Sharding.hash(8)), as_of=interval_end)

    SnapshotReader("s3://lake/builds/features").get(4711)

The names in ``__init__.pyi`` load on first use: a Spark task that writes a shard needs neither the registry nor its database.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
