"""What Airflow's provider discovery reads about this package."""

from __future__ import annotations

from typing import Any


def get_provider_info() -> dict[str, Any]:
    """The provider metadata, in the shape of Airflow's provider schema."""
    return {
        "package-name": "airflow-snowpack",
        "name": "Snowpack",
        "description": "Keeps Apache Iceberg tables healthy through Spark, under table locks and fenced, leased claims.",
    }
