"""A store on each database, a clock that the tests move, a Git repository, and images by a builder that needs no program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clocks import MovedClock
from image_world import DOCKERFILE, REGISTRY, NotedBuilder, Repository

from airflow_snowpack.runners.images import ImageBuild, ImageBuilds, ImageTarget
from airflow_snowpack.store import Store
from airflow_snowpack.store.opening import open_engine


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where builds have their scratch folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))  # for processes
    return folder


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def store(store_url: str, clock: MovedClock) -> Iterator[Store]:
    with Store(open_engine(store_url), clock, sleep=lambda _: None) as opened:
        yield opened


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "score.git")


@pytest.fixture(scope="session")
def source(tmp_path_factory: pytest.TempPathFactory) -> ImageBuild:
    """The only commit of a repository, for the tests that change nothing in it."""
    repository = Repository(tmp_path_factory.mktemp("source") / "score.git")
    return ImageBuild(repository.url, repository.commit(DOCKERFILE))


@pytest.fixture
def builder() -> NotedBuilder:
    return NotedBuilder()


@pytest.fixture
def images(store: Store, builder: NotedBuilder) -> ImageBuilds:
    return ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=builder)
