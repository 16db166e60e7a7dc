"""The manifests of the workers are what KEDA and Kubernetes accept, and name what the worker reads. No cluster is used."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import ValidationError
from kubernetes_schemas import JOB_SCHEMA, SCHEMAS, check

from airflow_snowpack.provider_info import CONFIG, SECTION
from airflow_snowpack.settings import Settings
from airflow_snowpack.worker.__main__ import open_sparks, parser
from airflow_snowpack.worker.environment import Environment

REPOSITORY = Path(__file__).parents[3]
MANIFESTS = REPOSITORY / "docker/kubernetes"


def documents(name: str) -> dict[str, dict[str, Any]]:
    """The documents of a manifest by their kind."""
    return {document["kind"]: document for document in yaml.safe_load_all((MANIFESTS / name).read_text())}


def pods() -> list[dict[str, Any]]:
    """The pod's specification in each manifest that starts one."""
    job = documents("scaledjob.yaml")["ScaledJob"]["spec"]["jobTargetRef"]
    return [job["template"]["spec"], documents("deployment.yaml")["Deployment"]["spec"]["template"]["spec"]]


@pytest.mark.parametrize("kind", ["ScaledJob", "TriggerAuthentication"])
def test_the_manifests_are_what_keda_accepts(kind: str) -> None:
    document = documents("scaledjob.yaml")[kind]
    check(document["spec"], SCHEMAS[kind]["properties"]["spec"])


@pytest.mark.parametrize("place", [0, 1])
def test_the_pods_are_what_kubernetes_accepts(place: int) -> None:
    check(pods()[place], JOB_SCHEMA["template"]["properties"]["spec"])


def test_a_misspelt_key_would_not_pass() -> None:
    spec = documents("scaledjob.yaml")["ScaledJob"]["spec"]
    with pytest.raises(ValidationError, match="pollingIntervall"):
        check(spec | {"pollingIntervall": 30}, SCHEMAS["ScaledJob"]["properties"]["spec"])


def test_keda_counts_what_the_queue_calls_waiting() -> None:
    (trigger,) = documents("scaledjob.yaml")["ScaledJob"]["spec"]["triggers"]
    assert trigger["metadata"]["query"] in (REPOSITORY / "docs/store.md").read_text()  # which test_keda_query.py runs
    assert (trigger["metadata"]["targetQueryValue"], trigger["metadata"]["activationTargetQueryValue"]) == ("1", "0")
    assert trigger["authenticationRef"]["name"] == documents("scaledjob.yaml")["TriggerAuthentication"]["metadata"]["name"]


def test_every_pod_takes_its_settings_from_the_secret_and_none_from_its_command_line() -> None:
    secret = documents("settings.yaml")["Secret"]
    for pod in pods():
        (container,) = pod["containers"]
        assert container["envFrom"] == [{"secretRef": {"name": secret["metadata"]["name"]}}]
        assert "env" not in container
        assert not set(container["args"]) & set(secret["stringData"].values())


def test_the_worker_reads_every_setting_and_connection_of_the_secret() -> None:
    given: dict[str, str] = documents("settings.yaml")["Secret"]["stringData"]
    prefix = f"AIRFLOW__{SECTION.upper()}__"
    options = {name.removeprefix(prefix).lower() for name in given if name.startswith(prefix)}
    assert options <= set(CONFIG[SECTION]["options"])

    environment = Environment(given)
    settings = Settings.load(environment)
    assert settings.store_conn_id is not None
    assert environment.connection(settings.store_conn_id, "the store").host == "store-db"
    (spark,) = open_sparks(settings, environment)
    assert (spark.catalog.address, spark.catalog.warehouse) == ("https://catalog.example.com", "lake")


@pytest.mark.parametrize("place", [0, 1])
def test_the_worker_has_the_arguments_of_the_pods(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = pods()[place]["containers"]
    assert parser().parse_args(container["args"])


def test_the_image_of_the_pods_is_the_one_that_the_dockerfile_builds() -> None:
    dockerfile = (REPOSITORY / "docker/worker.Dockerfile").read_text()
    images = {container["image"] for pod in pods() for container in pod["containers"]}
    assert len(images) == 1
    assert f"--tag {images.pop()} ." in dockerfile
