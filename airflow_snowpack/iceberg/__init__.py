"""Iceberg tables: their names, their catalogs, and their health as read from metadata.

Names load on first use: a DAG file that names a table loads neither its health nor its files. PyIceberg and PyArrow load when a
catalog or a table is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
