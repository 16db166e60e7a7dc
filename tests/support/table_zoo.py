"""Real Iceberg tables of every kind that health, plans and maintenance have to cope with; a function makes each of them.

    zoo = Zoo(catalog)                   # PyIceberg alone
    zoo = Zoo(catalog, spark)            # with the kinds that only Spark can write, too
    zoo.shared("bucket_of_long")         # a TableName, made at the first use: for tests that only read
    zoo.new("bucket_of_long")            # a table of this test alone, for one that writes to it
    zoo.load(name)                       # PyIceberg's view of it now
    zoo.kinds()                          # the names of all kinds that this zoo can make; ``parametrize`` takes KINDS

The fixture ``zoo`` is that of the session: without Spark below ``tests/unit``, with it below ``tests/integration``. A kind
without Spark takes 10 to 300 ms. All have the columns ``id BIGINT`` (unique, from 0), ``value`` (of any type; the table is
partitioned by it) and ``note STRING``, unless their docstring says otherwise, and :func:`rows` returns what readers see of one.
"""

from __future__ import annotations

from zoo import DECLARED, Zoo, append, data_files, read_metadata, replace_metadata, rows
from zoo_partitions import declare_transforms
from zoo_tables import commit_times, with_snapshots

__all__ = [
    "KINDS",
    "KINDS_OF_SPARK",
    "UNREADABLE_KINDS",
    "Zoo",
    "append",
    "commit_times",
    "data_files",
    "read_metadata",
    "replace_metadata",
    "rows",
    "with_snapshots",
]

declare_transforms()

KINDS = tuple(name for name, kind in DECLARED.items() if kind.is_readable and not kind.needs_spark)
"""All kinds that PyIceberg makes and reads."""
KINDS_OF_SPARK = tuple(name for name, kind in DECLARED.items() if kind.needs_spark)
"""Those that Spark has to make."""
UNREADABLE_KINDS = tuple(name for name, kind in DECLARED.items() if not kind.is_readable)
"""Those whose metadata cannot be read to its end."""
