"""The folders of DAG files: the installation's, and that of a task's bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


PACKAGE = Path(__file__).parents[1]


def dags_folder() -> Path:
    from airflow.configuration import conf

    return Path(conf.get("core", "dags_folder"))


def bundle_folder(context: Context) -> Path:
    """Return the folder of the bundle that contains a task's DAG.

    The bundle of the DAGs that ship with the package has no policies or schedules, so its tasks use the DAGs folder.
    """
    bundle = getattr(context["ti"], "bundle_instance", None)
    return dags_folder() if bundle is None or Path(bundle.path).is_relative_to(PACKAGE) else Path(bundle.path)
