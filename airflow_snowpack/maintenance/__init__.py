"""What a job does to a table: the actions, their options, the plan of a dry run, and the engine that runs them on Spark.

Importing this room is cheap: a DAG file takes :class:`Action` from here. What needs Spark, a catalog or the store loads when it
is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
