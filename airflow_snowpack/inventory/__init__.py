"""Which tables there are: the catalog's listing, kept in the store, so that it is at hand when the catalog is not."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
