"""Hooks: the store, the Iceberg catalog, the Spark session and the storage of builds that the installation names.

Names load when they are first used: a DAG file pays only for what it needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
