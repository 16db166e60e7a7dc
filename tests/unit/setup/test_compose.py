"""``docker-compose.yaml`` conforms to the Compose specification and has the parts of production. ``tests/system`` runs it."""

from __future__ import annotations

import json
import re
import subprocess
from base64 import urlsafe_b64decode
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from compose_spec import PyCompose

from airflow_snowpack.spark.config import SUBSTITUTION, SparkConfig

REPOSITORY = Path(__file__).parents[3]
AIRFLOW_PROCESSES = ("api-server", "scheduler", "dag-processor", "triggerer")
DATABASES = ("airflow-db", "store-db")
CLUSTER = ("spark-master", "spark-worker", "spark-connect")
SERVERS = (*AIRFLOW_PROCESSES, *DATABASES, *CLUSTER, "spark-connect-small", "s3")
TASKS = ("migrate", "demo-tables")
"""They run once and end."""
SECRET = re.compile(r"PASSWORD|SECRET|ACCESS_KEY|FERNET|SQL_ALCHEMY_CONN|AIRFLOW_CONN_(?!SPARK)")
UNITS = {"m": 2**20, "g": 2**30}

VARIABLE = re.compile(r"\$\$|\$\{(?P<name>\w+)(?:(?P<kind>:[-?])(?P<rest>[^}]*))?\}")


@cache
def new_values() -> dict[str, str]:
    """The variables of a new ``.env``."""
    script = REPOSITORY / "docker" / "new_env.sh"
    printed = subprocess.run(["sh", script], capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(line.split("=", 1) for line in printed.splitlines() if not line.startswith("#"))


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
    """What Compose makes of it with the values of a new ``.env``."""
    document: dict[str, Any] = resolved(source, new_values())
    return document


def test_it_conforms_to_the_compose_specification(project: dict[str, Any]) -> None:
    compose = PyCompose.from_json(json.dumps(project))
    compose.validate()
    assert set(compose.service_names()) == {*SERVERS, *TASKS, "worker"}


def test_a_misspelt_key_would_not_pass(project: dict[str, Any]) -> None:
    misspelt = project | {"services": project["services"] | {"scheduler": project["services"]["scheduler"] | {"restrat": "no"}}}
    with pytest.raises(ValueError, match="restrat"):
        PyCompose.from_json(json.dumps(misspelt))


@pytest.mark.parametrize("service", SERVERS)
def test_every_server_has_a_health_check(project: dict[str, Any], service: str) -> None:
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


def test_jobs_run_after_their_tables_and_the_spark_of_either_profile_are_there(project: dict[str, Any]) -> None:
    needs = project["services"]["worker"]["depends_on"]
    assert needs["migrate"] == {"condition": "service_completed_successfully"}
    assert needs["s3"] == {"condition": "service_healthy"}
    for server in ("spark-connect", "spark-connect-small"):
        assert needs[server] == {"condition": "service_healthy", "required": False}
    assert project["services"]["scheduler"]["depends_on"]["demo-tables"] == {"condition": "service_completed_successfully"}


@pytest.mark.parametrize("service", AIRFLOW_PROCESSES)
def test_every_airflow_process_has_the_dags_and_what_they_import(project: dict[str, Any], service: str) -> None:
    targets = {volume.split(":")[1] for volume in project["services"][service]["volumes"]}
    assert {"/opt/airflow/dags", "/opt/airflow/logs", "/opt/snowpack/examples"} <= targets
    assert project["services"][service]["environment"]["PYTHONPATH"] == "/opt/snowpack"


def test_all_state_is_in_volumes(project: dict[str, Any]) -> None:
    mounts = [mount.split(":") for service in project["services"].values() for mount in service.get("volumes", [])]
    written = {source: target for source, target, *mode in mounts if "ro" not in mode}
    assert set(written) == set(project["volumes"])
    assert written == {
        "airflow-db": "/var/lib/postgresql/data",
        "store-db": "/var/lib/postgresql/data",
        "s3": "/data",
        "logs": "/opt/airflow/logs",
    }
    environment = project["x-snowpack"]
    assert environment["AIRFLOW__SNOWPACK__BUILDS_URL"] == "s3://builds"
    assert project["services"]["s3"]["environment"]["S3_BUCKET"] == "builds"


def test_the_small_profile_fits_into_6_gib(project: dict[str, Any]) -> None:
    services = project["services"].values()
    in_small = [each for each in services if "small" in each.get("profiles", ["small"]) and each["restart"] != "on-failure"]
    limits = [int(each["mem_limit"][:-1]) * UNITS[each["mem_limit"][-1]] for each in in_small]
    assert sum(limits) <= 6 * 2**30


def test_one_profile_has_the_cluster_and_the_other_a_server_under_its_name(project: dict[str, Any]) -> None:
    services = project["services"]
    assert {name for name, service in services.items() if service.get("profiles") == ["cluster"]} == set(CLUSTER)
    small = services["spark-connect-small"]
    assert small["profiles"] == ["small"]
    assert small["networks"] == {"default": {"aliases": ["spark-connect"]}}
    assert new_values()["COMPOSE_PROFILES"] == "cluster"


def test_the_connect_server_has_the_settings_of_a_local_session() -> None:
    lines = (REPOSITORY / "docker" / "spark.conf").read_text().splitlines()
    conf = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    expected = SparkConfig(packages=("org.apache.iceberg:iceberg-aws-bundle:1.12.0",)).launch_conf()
    for key in ("spark.jars.packages", "spark.sql.extensions", "spark.sql.session.timeZone", SUBSTITUTION):
        assert conf[key] == expected[key], key
    dockerfile = (REPOSITORY / "docker" / "worker.Dockerfile").read_text()
    assert "'org.apache.iceberg:iceberg-aws-bundle:1.12.0'" in dockerfile


def test_no_secret_stands_in_the_file(source: dict[str, Any]) -> None:
    for name, service in source["services"].items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):
                assert VARIABLE.search(str(value)), f"{name}: {variable} has its value in clear"


@pytest.mark.parametrize("missing", sorted(name for name in new_values() if SECRET.search(name)))
def test_compose_refuses_to_start_without_a_secret(source: dict[str, Any], missing: str) -> None:
    values = {name: value for name, value in new_values().items() if name != missing}
    with pytest.raises(LookupError, match=missing):
        resolved(source, values)


def test_each_new_env_has_secrets_of_its_own() -> None:
    first = new_values()
    new_values.cache_clear()
    assert not {value for name, value in new_values().items() if SECRET.search(name)} & set(first.values())
    assert len(urlsafe_b64decode(first["AIRFLOW_FERNET_KEY"])) == 32


def test_only_its_owner_reads_a_new_env(tmp_path: Path) -> None:
    (file := tmp_path / ".env").touch(0o644)
    with file.open("w") as redirected:
        subprocess.run(["sh", REPOSITORY / "docker" / "new_env.sh"], stdout=redirected, check=True, timeout=60)
    assert file.stat().st_mode & 0o777 == 0o600


def test_nothing_listens_beyond_this_machine(project: dict[str, Any]) -> None:
    published = [port for service in project["services"].values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8080:8080"]
