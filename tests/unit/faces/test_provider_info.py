"""The provider info: valid by Airflow's own schema, and everything that it names exists."""

from __future__ import annotations

import dataclasses
import importlib
import json
from pathlib import Path

import jsonschema
import pytest
from airflow_since import since_airflow

from airflow_snowpack import hooks
from airflow_snowpack.connections.catalog import STORAGE_FIELDS
from airflow_snowpack.jobs import LifecyclePolicy
from airflow_snowpack.provider_info import get_provider_info
from airflow_snowpack.settings import Settings

KINDS = ("hooks", "operators", "sensors", "triggers")


def named_modules() -> list[str]:
    info = get_provider_info()
    return [module for kind in KINDS for entry in info[kind] for module in entry["python-modules"]]


def test_the_provider_info_is_valid_by_airflows_schema() -> None:
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


def test_its_parts_are_valid_by_the_stricter_schema_that_airflow_has_for_its_own_providers() -> None:
    import airflow

    schema = json.loads((Path(airflow.__file__).parent / "provider.yaml.schema.json").read_text())
    info = get_provider_info()
    shared = set(info) & set(schema["properties"])

    assert {"connection-types", "hooks", "operators", "sensors", "triggers", "integrations", "extra-links", "config"} <= shared
    for part in shared - {"package-name", "integrations"}:  # these require Airflow's own naming, and for files of its repository
        jsonschema.Draft7Validator(schema | {"required": [], "properties": {part: schema["properties"][part]}}).validate(
            {part: info[part]}
        )


def test_every_integration_that_is_referred_to_is_declared() -> None:
    info = get_provider_info()
    declared = {integration["integration-name"] for integration in info["integrations"]}

    assert {entry["integration-name"] for kind in KINDS for entry in info[kind]} == declared


@pytest.mark.parametrize("module", named_modules())
def test_every_module_that_it_names_can_be_imported(module: str) -> None:
    importlib.import_module(module)


@pytest.mark.parametrize("kind", KINDS)
def test_every_public_name_of_a_package_is_in_a_module_that_it_names(kind: str) -> None:
    package = importlib.import_module(f"airflow_snowpack.{kind}")

    assert {getattr(package, name).__module__ for name in package.__all__} == {
        module for module in named_modules() if module.startswith(f"airflow_snowpack.{kind}.")
    }


def test_airflow_discovers_the_provider() -> None:
    from airflow.providers_manager import ProvidersManager

    assert "airflow-snowpack" in ProvidersManager().providers


@pytest.mark.parametrize(
    ("conn_type", "hook", "argument"),
    [
        ("snowpack_catalog", "IcebergCatalogHook", "catalog_conn_id"),
        ("snowpack_store", "SnowpackHook", "store_conn_id"),
    ],
)
def test_airflow_knows_the_connection_types_with_their_hooks_and_tests(conn_type: str, hook: str, argument: str) -> None:
    from airflow.providers_manager import ProvidersManager

    known = ProvidersManager().hooks[conn_type]

    assert known is not None
    hook_class = getattr(hooks, hook)
    assert known.hook_class_name == f"{hook_class.__module__}.{hook_class.__qualname__}"
    assert (known.connection_id_attribute_name, known.connection_type, known.connection_testable) == (argument, conn_type, True)


@since_airflow(3, 2)
@pytest.mark.parametrize(
    ("conn_type", "fields"),
    [
        ("snowpack_catalog", {"warehouse", "token", "properties", "spark_properties", *STORAGE_FIELDS}),
        ("snowpack_store", {"sslmode"}),
    ],
)
def test_the_form_of_a_connection_has_fields_for_its_extra_and_a_password(conn_type: str, fields: set[str]) -> None:
    from airflow.providers_manager import ProvidersManager

    manager = ProvidersManager()
    widgets = manager.connection_form_widgets

    assert {name.split("__")[2] for name in widgets if name.startswith(f"extra__{conn_type}__")} == fields
    assert "password" not in manager.field_behaviours[conn_type]["hidden_fields"]


def test_secrets_are_hidden_in_the_form() -> None:
    (catalog,) = (each for each in get_provider_info()["connection-types"] if each["connection-type"] == "snowpack_catalog")

    hidden = {name for name, field in catalog["conn-fields"].items() if field["schema"].get("format") == "password"}
    assert hidden == {"token", "s3_secret_access_key", "adls_account_key"}


def test_airflow_knows_the_extra_links() -> None:
    from airflow.providers_manager import ProvidersManager

    from airflow_snowpack.links import BuildRunLink, MaintenanceJobLink

    links = (MaintenanceJobLink, BuildRunLink)
    assert get_provider_info()["extra-links"] == [f"{link.__module__}.{link.__qualname__}" for link in links]
    assert set(get_provider_info()["extra-links"]) <= set(ProvidersManager().extra_links_class_names)


def test_every_option_is_read_into_the_settings_and_secrets_are_marked() -> None:
    options = get_provider_info()["config"]["snowpack"]["options"]
    read = {field.name for field in dataclasses.fields(Settings)} | {field.name for field in dataclasses.fields(LifecyclePolicy)}

    assert set(options) <= read
    assert {name for name, option in options.items() if option.get("sensitive")} == {"api_token"}


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
