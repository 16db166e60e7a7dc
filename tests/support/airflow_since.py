"""What differs for the tests between versions of Airflow, as `make compat` runs those of the faces on each.

@since_airflow(3, 3)
def test_a_watcher_emits_an_event(): ...

A test has this mark only for a feature that ``docs/compatibility.md`` lists as missing.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

INSTALLED = version("apache-airflow-core")
VERSION = tuple(int(part) for part in INSTALLED.split(".")[:2])


def since_airflow(major: int, minor: int) -> pytest.MarkDecorator:
    return pytest.mark.skipif((major, minor) > VERSION, reason=f"Airflow {INSTALLED} lacks it; see docs/compatibility.md")


def stored(arguments: dict[str, Any]) -> Any:
    """Return the arguments of a method that a task resumes with, as Airflow stores them."""
    if VERSION >= (3, 2):
        return arguments  # it reads plain ones, too
    from airflow.serialization.serialized_objects import BaseSerialization

    return BaseSerialization.serialize(arguments)


def sent(arguments: Any) -> Any:
    """Return the arguments in the message of a task that defers; Airflow 3.1 encodes them later."""
    if VERSION < (3, 2):
        return arguments
    from airflow.sdk.serde import deserialize

    return deserialize(arguments)


def bundle(folder: Path) -> Any:
    """Return the DAGs of a folder and their import errors, read as the bundle ``dags``."""
    from airflow_snowpack.airflow_versions import dag_bags

    if VERSION < (3, 2):
        return dag_bags().DagBag(dag_folder=str(folder), bundle_path=folder)
    return dag_bags().BundleDagBag(dag_folder=str(folder), bundle_path=folder, bundle_name="dags")
