"""The root of every error this package raises.

    SnowpackError
    ├── store      StoreError, SchemaOutOfDate, StoreUnreachable
    ├── iceberg    InvalidTableName, TableNotFound, CatalogUnreachable
    ├── spark      SparkUnavailable, SparkInterrupted
    ├── jobs       TableLocked, DrainModeOn, JobNotFound, JobAlreadyFinished, JobStillActive
    └── maintenance UnknownAction, InvalidOption

Each room keeps its own branch in its ``errors.py``. A message is a complete sentence with the value, the rule and the way out.
"""

from __future__ import annotations


class SnowpackError(Exception):
    """The root: catch this to catch everything the package raises on purpose."""
