"""The job lifecycle: submit, claim, heartbeat, finish, cancel, delete, sweep and drain, and the worker that runs it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
