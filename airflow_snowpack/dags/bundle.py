"""All DAGs of this folder by one setting: an entry of Airflow's ``[dag_processor] dag_bundle_config_list``.

{"name": "snowpack", "classpath": "airflow_snowpack.dags.bundle.SnowpackDags", "kwargs": {}}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.dag_processing.bundles.local import LocalDagBundle


class SnowpackDags(LocalDagBundle):
    """The folder of the installed package."""

    def __init__(self, **arguments: Any) -> None:
        """:param arguments: Airflow's, such as the name of the bundle."""
        super().__init__(path=str(Path(__file__).parent), **arguments)
