"""Triggers: wait for a job, a free table, or what schedules wait for in the triggerer, without holding a worker's slot."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
