"""The builders by the names of the setting ``[snowpack] image_builder``."""

from __future__ import annotations

from airflow_snowpack.runners.images.buildah import Buildah
from airflow_snowpack.runners.images.builder import Builder
from airflow_snowpack.runners.images.docker import Docker
from airflow_snowpack.runners.images.target import ImageTarget


def builder_for(target: ImageTarget) -> Builder:
    """Return the builder that a target names."""
    return Docker() if target.builder == "docker" else Buildah(target.builder)
