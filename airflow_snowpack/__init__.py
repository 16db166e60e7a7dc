"""Keeps Apache Iceberg tables healthy from Airflow.

Airflow decides when, the store decides who, Spark does the work, and a fence makes sure that only one attempt ever counts.
"""

__version__ = "0.1.0"
