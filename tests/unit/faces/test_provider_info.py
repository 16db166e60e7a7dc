"""What Airflow's discovery is told: valid by Airflow's own schema, and everything that it names exists."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.providers_manager import ProvidersManager

from airflow_snowpack.provider_info import get_provider_info

KINDS = ("hooks", "operators", "sensors", "triggers")


def named_modules() -> list[str]:
    info = get_provider_info()
    return [module for kind in KINDS for entry in info[kind] for module in entry["python-modules"]]


def test_the_provider_info_is_valid_by_airflows_schema() -> None:
    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


@pytest.mark.parametrize("module", named_modules())
def test_every_module_that_it_names_can_be_imported(module: str) -> None:
    importlib.import_module(module)


@pytest.mark.parametrize("kind", KINDS)
def test_every_public_name_of_a_package_stands_in_a_module_that_it_names(kind: str) -> None:
    package = importlib.import_module(f"airflow_snowpack.{kind}")

    assert {getattr(package, name).__module__ for name in package.__all__} == {
        module for module in named_modules() if module.startswith(f"airflow_snowpack.{kind}.")
    }


def test_airflow_discovers_the_provider() -> None:
    assert "airflow-snowpack" in ProvidersManager().providers


def test_the_commands_are_declared_with_airflows_own_classes() -> None:
    from airflow.cli.cli_config import GroupCommand

    path, _, name = get_provider_info()["cli"][0].rpartition(".")
    (group,) = getattr(importlib.import_module(path), name)()

    assert isinstance(group, GroupCommand)
    assert group.name == "snowpack"


def test_the_page_on_configuration_has_every_option_with_its_default() -> None:
    page = (Path(__file__).parents[3] / "docs" / "configuration.md").read_text()

    for name, option in get_provider_info()["config"]["snowpack"]["options"].items():
        default = f"`{option['default']}`" if option["default"] else "empty"
        assert f"| `{name}` | {option['description']} | {default} |" in page
