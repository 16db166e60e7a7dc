from .build_storage import BuildStorageHook as BuildStorageHook
from .iceberg_catalog import IcebergCatalogHook as IcebergCatalogHook
from .iceberg_spark import IcebergSparkHook as IcebergSparkHook
from .store import SnowpackHook as SnowpackHook
