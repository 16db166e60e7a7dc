"""``docker-compose.yaml`` is what the Compose specification allows, and has production's parts. No daemon is asked."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

REPOSITORY = Path(__file__).parents[3]
AIRFLOW_PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
DATABASES = ("airflow-db", "store-db")
SECRET = re.compile(r"PASSWORD|SECRET|FERNET|SQL_ALCHEMY_CONN|AIRFLOW_CONN_")

VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}")


def example_values() -> dict[str, str]:
    lines = (REPOSITORY / "docker" / "example.env").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def interpolated(text: str, values: dict[str, str]) -> str:
    """``${NAME}``, ``${NAME:-default}``, ``${NAME:?message}`` and ``$$``, as the specification reads them."""

    def value(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        if given := values.get(match["name"]):
            return given
        if match["kind"] == ":?":
            raise LookupError(match["rest"])
        return match["rest"] or ""

    return VARIABLE.sub(value, text)


def resolved(node: Any, values: dict[str, str]) -> Any:
    match node:
        case str():
            return interpolated(node, values)
        case list():
            return [resolved(item, values) for item in node]
        case dict():
            return {key: resolved(item, values) for key, item in node.items()}
        case _:
            return node


@pytest.fixture(scope="module")
def source() -> dict[str, Any]:
    """The file with its YAML anchors merged and its variables as they stand."""
    document: dict[str, Any] = yaml.safe_load((REPOSITORY / "docker-compose.yaml").read_text())
    return document


@pytest.fixture(scope="module")
def project(source: dict[str, Any]) -> dict[str, Any]:
    """What Compose makes of it with the example's values."""
    document: dict[str, Any] = resolved(source, example_values())
    return document


def test_it_conforms_to_the_compose_specification(project: dict[str, Any]) -> None:
    compose = PyCompose.from_json(json.dumps(project))
    compose.validate()
    assert set(compose.service_names()) == {*AIRFLOW_PROCESSES, *DATABASES, "migrate"}


def test_a_misspelt_key_would_not_pass(project: dict[str, Any]) -> None:
    misspelt = project | {"services": project["services"] | {"scheduler": project["services"]["scheduler"] | {"restrat": "no"}}}
    with pytest.raises(ValueError, match="restrat"):
        PyCompose.from_json(json.dumps(misspelt))


@pytest.mark.parametrize("service", [*AIRFLOW_PROCESSES, *DATABASES])
def test_every_process_that_stays_has_a_health_check(project: dict[str, Any], service: str) -> None:
    check = project["services"][service]["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries", "start_period"} <= set(check)


@pytest.mark.parametrize("service", AIRFLOW_PROCESSES)
def test_airflow_starts_after_both_schemas_are_up_to_date(project: dict[str, Any], service: str) -> None:
    assert project["services"][service]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert set(project["services"]["migrate"]["depends_on"]) == set(DATABASES)
    script = project["services"]["migrate"]["command"][-1]
    assert "airflow db migrate" in script
    assert "airflow snowpack db upgrade" in script


@pytest.mark.parametrize("service", AIRFLOW_PROCESSES)
def test_the_dags_and_the_warehouse_are_there_for_every_airflow_process(project: dict[str, Any], service: str) -> None:
    targets = {volume.split(":")[1] for volume in project["services"][service]["volumes"]}
    assert {"/opt/airflow/dags", "/opt/airflow/logs", "/var/lib/snowpack"} <= targets


def test_no_secret_stands_in_the_file(source: dict[str, Any]) -> None:
    for name, service in source["services"].items():
        for variable, value in service["environment"].items():
            if SECRET.search(variable):
                assert VARIABLE.search(str(value)), f"{name}: {variable} has its value in clear"


@pytest.mark.parametrize("missing", sorted(name for name in example_values() if SECRET.search(name)))
def test_compose_refuses_to_start_without_a_secret(source: dict[str, Any], missing: str) -> None:
    values = {name: value for name, value in example_values().items() if name != missing}
    with pytest.raises(LookupError, match=missing):
        resolved(source, values)


def test_nothing_listens_beyond_this_machine(project: dict[str, Any]) -> None:
    published = [port for service in project["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8080:8080"]
