"""Tables are handed over where the installation's collector looks, or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_snowpack import hooks
from airflow_snowpack.iceberg.table_properties import STORE
from tests.unit.faces.conftest import Outcome, Runner


def run(run_operator: Runner, **arguments: Any) -> Outcome:
    """A task that hands a table on."""

    from airflow.sdk import DAG, task

    def made() -> pa.Table:
        return pa.table({"number": [1, 2, 3]})

    with DAG("guard", schedule=None):
        called: Any = task.snowpack(**arguments)(made)()
    return run_operator(called.operator)


@pytest.mark.parametrize("argument", ["catalog_conn_id", "store_conn_id"])
def test_another_catalog_or_store_than_the_installations_is_refused(
    run_operator: Runner, argument: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    other = {"conn_type": "sqlite", "host": str(tmp_path / "other.db"), "extra": {"warehouse": f"file://{tmp_path}/other"}}
    monkeypatch.setenv("AIRFLOW_CONN_OTHER", json.dumps(other))

    refused = run(run_operator, **{argument: "other"})

    assert isinstance(refused.error, AirflowFailException), "another try would meet the same"
    assert f"{argument} = 'other' differs from this installation's" in str(refused.error)
    assert f"[snowpack] {argument}" in str(refused.error)
    assert not hooks.IcebergCatalogHook().catalog.namespace_exists("snowpack_interim")


def test_the_installations_own_may_be_named(run_operator: Runner) -> None:
    assert run(run_operator, store_conn_id="test_store").state == "success"


def test_where_another_store_has_its_tables_nothing_is_written(run_operator: Runner) -> None:
    from airflow.providers.common.compat.sdk import AirflowFailException

    catalog = hooks.IcebergCatalogHook().catalog
    catalog.create_namespace("snowpack_interim", {STORE: "another"})

    refused = run(run_operator)

    assert isinstance(refused.error, AirflowFailException), "another try would meet the same"
    assert "has the interim tables of another store (another)" in str(refused.error)
    assert "[snowpack] interim_namespace" in str(refused.error)
    assert catalog.list_tables("snowpack_interim") == []


def test_a_table_names_its_store(run_operator: Runner) -> None:
    handed = run(run_operator).xcom
    catalog = hooks.IcebergCatalogHook().catalog

    with hooks.SnowpackHook() as hook:
        mine = hook.store().identity
    assert catalog.load_table(handed["table"].removeprefix("lake.")).properties[STORE] == mine
    assert catalog.load_namespace_properties("snowpack_interim")[STORE] == mine
