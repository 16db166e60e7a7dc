"""Interim tables: Iceberg tables that pass from task to task, and are dropped once no task needs them.

    registry = InterimRegistry(store)
    writing = registry.begin(attempt, catalog="lake")                                           # then create the table
    [ref] = registry.commit(Output(writing, snapshot_id=…, rows=…), consumers=["report"])
    reading = registry.consume([ref], attempt=consumer)                                         # released when the consumer ends
    Collector(registry, run_states, open_catalog).run()                                         # drops tables

The names load on first use: a DAG file that uses a reference loads neither the registry nor its database.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
