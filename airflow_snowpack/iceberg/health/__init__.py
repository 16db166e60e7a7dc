"""The health of a table: small files, deletes, manifests and snapshots, down to the partition.

    health = read_health(table, now=utc_now())
    health.small_files, health.partitions[0].label, health.partitions[0].small_files    # (847, 'month=7', 93)
    score(health).total                                                                 # 61

The invariant: metadata only, without Spark. No data file is opened and no storage is listed, so health excludes orphan files.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
