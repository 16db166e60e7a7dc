"""A trial of the storage of a catalog: a small file in its warehouse, written, read back and deleted.

with trial_file(catalog, "s3://lake/warehouse") as place:
    ...
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_snowpack.iceberg.locations import scheme_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog

    from airflow_snowpack.iceberg.catalog import CatalogConfig

CONTENT = b"written by airflow snowpack to test the storage"
DELEGATION = "header.X-Iceberg-Access-Delegation"


def warehouse_of(config: CatalogConfig, catalog: Catalog) -> str | None:
    """Return where new tables go; ``None`` if the catalog alone decides that, or gives credentials for its tables only."""
    warehouse = config.warehouse or catalog.properties.get("warehouse")
    return warehouse if warehouse and "://" in warehouse and DELEGATION not in config.properties else None


@contextmanager
def trial_file(catalog: Catalog, warehouse: str) -> Iterator[str]:
    """Yield the path of a file that was written to the warehouse and read back; it is deleted with the block.

    :raises OSError: the storage refuses, or returns other bytes.
    """
    from pyiceberg.io import load_file_io

    # Table buckets, such as those of SeaweedFS, take only what lies where the files of a table do.
    folder = "snowpack_trial/files/data/" if scheme_of(warehouse) == "s3" else ""
    place = f"{warehouse.rstrip('/')}/{folder}snowpack-trial-{uuid4().hex}"
    io = load_file_io(catalog.properties, place)
    with io.new_output(place).create() as output:
        output.write(CONTENT)
    try:
        with io.new_input(place).open() as written:
            if written.read() != CONTENT:
                raise OSError(f"{place} was written, and reads otherwise")
        yield place
    finally:
        io.delete(place)
