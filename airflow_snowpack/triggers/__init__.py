"""Triggers: wait in the triggerer for sensors, operators and assets, without a worker slot."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
