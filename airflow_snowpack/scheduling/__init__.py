"""When a DAG should run: triggers, constraints, schedules, events, pending runs, and the roles that process them.

Importing this room is cheap, because DAG files take their declarations from here: what needs the store loads on first use.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
