"""Sensors: wait for a job's end, for a free table, for data, for a publication, or until a run may go on."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
