"""The DAGs that ship with the package are in Airflow by one line of a DAG file, or by one setting."""

from __future__ import annotations

import json
import re
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow_since import bundle, since_airflow

from airflow_snowpack import dags
from airflow_snowpack.api.roles import DAGS, IMPORTED_AS, OTHER_DAGS
from airflow_snowpack.hooks.dag_files import bundle_folder, dags_folder

BY_NAME = {
    "collector": "snowpack_interim_collector",
    "fleet": "snowpack_maintain_fleet",
    "notifications": "snowpack_notifications",
    "prune": "snowpack_prune",
    "scheduler": "snowpack_dispatcher",
    "sweep": "snowpack_sweep",
    "workers": "snowpack_workers",
}
REPOSITORY = Path(__file__).parents[3]


def dag_ids_in(folder: Path) -> list[str]:
    """What Airflow finds in a folder without an error."""
    bag = bundle(folder)
    assert bag.import_errors == {}
    return sorted(bag.dag_ids)


@pytest.mark.parametrize("name", BY_NAME)
def test_one_line_of_a_dag_file_brings_one_dag(name: str, tmp_path: Path) -> None:
    (tmp_path / "operations.py").write_text(f"from airflow_snowpack.dags import {name}\n")
    assert dag_ids_in(tmp_path) == [BY_NAME[name]]


@since_airflow(3, 3)
def test_one_line_brings_all_of_them(tmp_path: Path) -> None:
    (tmp_path / "operations.py").write_text("from airflow_snowpack.dags import *\n")
    assert dag_ids_in(tmp_path) == sorted(BY_NAME.values())
    assert dag_ids_in(REPOSITORY / "dags").count("snowpack_sweep") == 1


def test_the_bundle_of_the_page_brings_all_of_them() -> None:
    (block,) = re.findall(r"```json\n(.*SnowpackDags.*)\n```", (REPOSITORY / "docs" / "dags.md").read_text())
    bundle = json.loads(block)
    module, _, name = bundle["classpath"].rpartition(".")
    made = getattr(import_module(module), name)(name=bundle["name"], **bundle["kwargs"])
    assert dag_ids_in(made.path) == sorted(BY_NAME.values())


def test_tasks_of_the_bundle_use_the_policies_and_schedules_of_the_dags_folder(tmp_path: Path) -> None:
    from airflow.dag_processing.bundles.local import LocalDagBundle

    from airflow_snowpack.dags.bundle import SnowpackDags

    def folder_of(bundle: Any) -> Path:
        context: Any = {"ti": SimpleNamespace(bundle_instance=bundle)}
        return bundle_folder(context)

    assert folder_of(SnowpackDags(name="snowpack")) == dags_folder()
    assert folder_of(LocalDagBundle(name="dags", path=str(tmp_path))) == tmp_path


def test_a_role_whose_dag_is_missing_names_the_import_that_brings_it() -> None:
    assert {role: getattr(dags, name).dag_id for role, name in IMPORTED_AS.items()} == DAGS
    assert {name: getattr(dags, name).dag_id for name in OTHER_DAGS} == OTHER_DAGS
