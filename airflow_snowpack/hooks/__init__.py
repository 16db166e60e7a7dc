"""Hooks: the store, the Iceberg catalog, the Spark session and the storage of builds that the installation names.

Names load when they are first used, so that a DAG file pays only for what it needs.
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from airflow_snowpack.hooks.build_storage import BuildStorageHook as BuildStorageHook
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook as IcebergCatalogHook
    from airflow_snowpack.hooks.iceberg_spark import IcebergSparkHook as IcebergSparkHook
    from airflow_snowpack.hooks.store import SnowpackHook as SnowpackHook

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "build_storage": ["BuildStorageHook"],
        "iceberg_catalog": ["IcebergCatalogHook"],
        "iceberg_spark": ["IcebergSparkHook"],
        "store": ["SnowpackHook"],
    },
)
