"""The builder of images and their registry, from the settings and an Airflow connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_snowpack.connections.errors import IncompleteConnection, UnsuitableConnection
from airflow_snowpack.connections.image_registry import image_registry
from airflow_snowpack.runners.images import ImageTarget, InvalidImageTarget, Registry
from airflow_snowpack.settings import InvalidSetting, Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Connection

    from airflow_snowpack.hooks.store import SnowpackHook


def connection(**fields: Any) -> Connection:
    from airflow.sdk import Connection

    return Connection(**{"conn_id": "images", "conn_type": "docker", "host": "registry.example.com", **fields})


@pytest.fixture
def hook() -> Iterator[SnowpackHook]:
    from airflow_snowpack.hooks.store import SnowpackHook

    with SnowpackHook() as opened:
        yield opened


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, Registry("registry.example.com", "snowpack")),
        ({"port": 5000}, Registry("registry.example.com:5000", "snowpack")),
        ({"host": "https://registry.example.com/"}, Registry("registry.example.com", "snowpack")),
        ({"host": "http://localhost:5000"}, Registry("localhost:5000", "snowpack", is_plain_http=True)),
        (
            {"login": "ci", "password": "secret", "extra": '{"repository": "team/images"}'},
            Registry("registry.example.com", "team/images", "ci", "secret"),
        ),
    ],
)
def test_a_docker_connection_describes_a_registry(fields: dict[str, Any], expected: Registry) -> None:
    assert image_registry(connection(**fields)) == expected


def test_another_connection_is_refused() -> None:
    with pytest.raises(UnsuitableConnection, match="'http', which does not work for the registry of images"):
        image_registry(connection(conn_type="http"))
    with pytest.raises(IncompleteConnection, match="host"):
        image_registry(connection(host=None))
    with pytest.raises(InvalidImageTarget, match=r"'registry\.example\.com/team'"):
        image_registry(connection(host="registry.example.com/team"))


def test_the_hook_builds_the_target_from_both_settings(monkeypatch: pytest.MonkeyPatch, hook: SnowpackHook) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_BUILDER", "buildah")
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_REGISTRY_CONN_ID", "images")
    monkeypatch.setenv("AIRFLOW_CONN_IMAGES", "docker://ci:secret@registry.example.com:5000/?repository=team%2Fimages")
    target = hook.installation.image_builds.target
    assert target == ImageTarget("buildah", Registry("registry.example.com:5000", "team/images", "ci", "secret"))


def test_the_store_is_read_without_the_connection(monkeypatch: pytest.MonkeyPatch, hook: SnowpackHook) -> None:
    """The API server lists images, and need not read the credentials of the registry."""
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_REGISTRY_CONN_ID", "missing")
    assert hook.installation.image_records.list().items == ()


def test_an_unknown_builder_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_BUILDER", "nerdctl")
    with pytest.raises(InvalidSetting, match=r"image_builder.*'nerdctl'.*one of docker, buildah, podman"):
        Settings.load()
