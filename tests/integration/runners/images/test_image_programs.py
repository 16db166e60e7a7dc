"""Images that Buildah and Podman really build, without a daemon and from nothing, and push to a registry on this machine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from image_registry import digest_of, running_registry
from image_world import Repository

from airflow_snowpack.runners.images import Building, ImageBuild, ImageBuilds, ImageTarget, Ready, Registry
from airflow_snowpack.store import Store

pytestmark = pytest.mark.one_database
DOCKERFILE = "FROM scratch\nARG GREETING\nCOPY score.py /app/\nLABEL greeting=$GREETING\n"
FILES = {"Dockerfile": DOCKERFILE, "score.py": "print(1)\n"}


@pytest.fixture(params=["buildah", "podman"])
def program(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A builder with a storage of its own."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"NO {name.upper()} HERE: no image was built with it. Install the package `{name}`.")
    storage = tmp_path / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path / "graph"}"\nrunroot = "{tmp_path / "run"}"\n')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    monkeypatch.setenv("BUILDAH_ISOLATION", "chroot")
    return name


def inspected(program: str, image: str) -> dict[str, str]:
    """Return the labels of a stored image."""
    found = subprocess.run([program, "inspect", "--type", "image", image], check=True, capture_output=True, text=True)
    image_json = json.loads(found.stdout)
    document = image_json[0] if isinstance(image_json, list) else image_json["OCIv1"]["config"]
    return dict(document["Labels"])


def test_an_image_is_built_on_this_host_and_named_by_its_key(program: str, store: Store, repository: Repository) -> None:
    source = ImageBuild(repository.url, repository.commit(FILES), build_args={"GREETING": "good morning"})
    images = ImageBuilds(store, ImageTarget(program, host="w1"))
    lines: list[str] = []
    found = images.ensure(source, build=True, on_line=lines.append)
    assert isinstance(found, Ready)
    assert found.reference == f"localhost/snowpack:{found.key}"
    labels = inspected(program, found.reference)
    assert labels["greeting"] == "good morning"
    assert labels["org.opencontainers.image.revision"] == source.revision
    assert any("COPY score.py" in line for line in lines)
    assert images.log(found.key).splitlines() == lines
    assert images.ensure(source, build=True) == found


def test_another_build_argument_is_another_content(program: str, store: Store, repository: Repository) -> None:
    commit = repository.commit(FILES)
    images = ImageBuilds(store, ImageTarget(program))
    greetings = {}
    for greeting in ("good morning", "good night"):
        found = images.ensure(ImageBuild(repository.url, commit, build_args={"GREETING": greeting}), build=True)
        assert isinstance(found, Ready)
        greetings[greeting] = inspected(program, found.reference)["greeting"]
    assert greetings == {"good morning": "good morning", "good night": "good night"}


def test_a_removed_image_is_built_again(program: str, store: Store, repository: Repository) -> None:
    source = ImageBuild(repository.url, repository.commit(FILES))
    images = ImageBuilds(store, ImageTarget(program))
    found = images.ensure(source, build=True)
    assert isinstance(found, Ready)
    subprocess.run([program, "rmi", found.reference], check=True, capture_output=True)
    store.clock.move(images.policy.heartbeat)  # type: ignore[attr-defined]
    again = images.ensure(source, build=True)
    assert isinstance(again, Ready)
    assert inspected(program, again.reference)


def test_a_broken_dockerfile_is_a_failure_with_the_log(program: str, store: Store, repository: Repository) -> None:
    images = ImageBuilds(store, ImageTarget(program))
    found = images.ensure(ImageBuild(repository.url, repository.commit({"Dockerfile": "FROM scratch\nCOPY no /\n"})), build=True)
    assert isinstance(found, Building)
    record = images.get(found.key)
    assert record.error is not None
    assert record.error.startswith(f"{program} ended with exit code")
    assert "COPY no /" in images.log(found.key)


def test_an_image_is_pushed_and_used_by_its_digest(
    program: str, store: Store, repository: Repository, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    source = ImageBuild(repository.url, repository.commit(FILES))
    with running_registry("ci", "hunter2-of-the-registry") as server:
        registry = Registry(server.host, "team/images", "ci", "hunter2-of-the-registry", is_plain_http=True)
        images = ImageBuilds(store, ImageTarget(program, registry))
        found = images.ensure(source, build=True)
        assert isinstance(found, Ready), images.get(found.key).error
        pushed = server.manifests["team/images", found.key]
        assert found.digest == digest_of(pushed)
        assert found.reference == f"{server.host}/team/images@{found.digest}"
        assert "hunter2" not in images.log(found.key)

        wrong = Registry(server.host, "team/other", "ci", "wrong-password", is_plain_http=True)
        refused = ImageBuilds(store, ImageTarget(program, wrong)).ensure(source, build=True)
        assert isinstance(refused, Building)
        assert images.get(refused.key).error is not None
        assert set(server.manifests) == {("team/images", found.key)}
