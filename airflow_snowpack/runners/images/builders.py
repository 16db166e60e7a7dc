"""The builders by the names of the setting ``[snowpack] image_builder``."""

from __future__ import annotations

from airflow_snowpack.runners.images.buildah import Buildah
from airflow_snowpack.runners.images.builder import Builder
from airflow_snowpack.runners.images.docker import Docker
from airflow_snowpack.runners.images.kaniko import Kaniko
from airflow_snowpack.runners.images.target import ImageTarget


def builder_for(target: ImageTarget) -> Builder:
    """Return the builder that a target names."""
    if target.builder == "docker":
        return Docker()
    return Buildah(target.builder) if target.pod_template is None or target.builder != "kaniko" else Kaniko(target.pod_template)
