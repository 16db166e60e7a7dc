"""The database: engine, schema, migrations, clock, and the lease-and-fence primitive that every room uses."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
