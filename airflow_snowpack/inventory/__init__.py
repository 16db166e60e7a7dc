"""The catalog's tables, listed in the store so that they are available when the catalog is not."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
