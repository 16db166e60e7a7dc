"""When a DAG should run: triggers, run constraints, schedules, events, pending runs, and the parts that move them.

Importing this room is cheap: a DAG file takes its declarations from here. What needs the store loads when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
