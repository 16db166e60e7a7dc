"""The builders by the names of the setting ``[snowpack] image_builder``."""

from __future__ import annotations

from airflow_snowpack.runners.images.buildah import Buildah
from airflow_snowpack.runners.images.builder import Builder
from airflow_snowpack.runners.images.docker import Docker


def builder_named(name: str) -> Builder:
    """Return a builder.

    :param name: one of :data:`~airflow_snowpack.runners.images.target.BUILDERS`.
    """
    return Docker() if name == "docker" else Buildah(name)
