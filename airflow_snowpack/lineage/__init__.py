"""Lineage: which operations read and wrote which tables, and each table's upstream and downstream tables."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
