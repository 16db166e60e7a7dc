"""Interim tables: Iceberg tables that are handed from task to task, and vanish when nobody needs them any more.

    registry = InterimRegistry(store)
    writing = registry.begin(holder.slot(), holder=holder, catalog="lake")                      # then the table is created
    ref = registry.hand_on(writing, snapshot_id=…, rows=…, consumers=["report"])
    reading = registry.consume([ref], holder=consumer)                                          # and released at its end
    Collector(registry, run_states, open_catalog).run()                                         # the one authority that drops

Names load when they are first used: a DAG file that mentions a ref needs neither the registry nor its database.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
