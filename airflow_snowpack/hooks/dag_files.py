"""Where DAG files are: the folder of the installation, and that of a task's own bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def dags_folder() -> Path:
    """Return the folder of the installation's DAG files."""
    from airflow.configuration import conf

    return Path(conf.get("core", "dags_folder"))


def bundle_folder(context: Context) -> Path:
    """Return the folder of the bundle that a task's DAG comes from."""
    bundle = getattr(context["ti"], "bundle_instance", None)
    return dags_folder() if bundle is None else Path(bundle.path)
