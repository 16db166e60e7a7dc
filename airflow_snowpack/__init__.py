"""Keeps Apache Iceberg tables healthy from Airflow.

Airflow decides when work runs, the store which worker runs it, and Spark does it; a fence ensures that only one attempt counts.
"""

__version__ = "0.1.0"
