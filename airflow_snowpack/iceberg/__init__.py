"""The tables: their names, their catalogs, their health read from metadata.

Names load when they are first used: a DAG file that names a table needs neither its health nor its files. PyIceberg and PyArrow
load when a catalog or a table is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
