"""Maintain all tables of a catalog under a budget: a pass plans, ranks and submits jobs, and workers drain them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
