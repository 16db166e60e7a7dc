"""Engines of the package, each in a module that is named after its type of Airflow connection."""
