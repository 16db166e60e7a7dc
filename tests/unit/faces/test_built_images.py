"""A task that waits for an image, also if its record is forgotten in that moment."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_world import NotedBuilder, Repository

from airflow_snowpack import hooks, operators
from airflow_snowpack.runners.images import ImageBuild, ImageBuilds, ImageRecord, registry
from tests.unit.faces.conftest import Runner


def test_a_task_waits_for_an_image_that_is_forgotten_in_this_moment(
    run_operator: Runner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "builder_for", lambda target: NotedBuilder())
    repository = Repository(tmp_path / "score.git")
    commit = repository.commit({"Dockerfile": "FROM scratch\n"})
    build = ImageBuild(repository.url, "main")
    with hooks.SnowpackHook() as hook:
        builds = hook.installation.image_builds
        key = builds.ensure(build).key
        assert builds._attempts.claim(key, "guard/run1/other", is_task=True) is not None
    known = ImageBuilds.get

    def get(self: ImageBuilds, asked: str) -> ImageRecord:
        self.forget(asked)
        return known(self, asked)

    monkeypatch.setattr(ImageBuilds, "get", get)
    waiting = run_operator(operators.RunEntryOperator(task_id="score", runner="docker", command=["score"], build=build))

    assert waiting.state == "deferred", waiting.error
    assert (waiting.message.trigger_kwargs["key"], waiting.message.next_kwargs) == (key, {"commit": commit})
