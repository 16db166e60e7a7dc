"""Hooks: the installation's store, Iceberg catalog, Spark session and storage of builds.

Names load on first use: a DAG file loads only what it needs.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
