"""Sensors: wait for the end of a job, a free table, data, a publication, or the constraints of a run."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
