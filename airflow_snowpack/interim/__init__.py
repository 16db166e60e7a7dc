"""Interim tables: Iceberg tables that are handed from task to task, and vanish when nobody needs them any more."""
