"""The maintenance actions: their names, order, options, dry-run plans, and the engine that runs them on Spark.

Importing this package is cheap, because DAG files import :class:`Action` from it. Modules that need Spark, a catalog or the store
load on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
