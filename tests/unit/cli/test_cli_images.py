"""``airflow snowpack images``: list, show and forget, on images in every state, and builds by a builder that needs no program."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from command_line import Run
from image_world import NotedBuilder, Repository
from made_images import COMMIT, HOLDER, LOG, SCORE, WAITING, ImageMaker, MadeImages, make_images

from airflow_snowpack import installation
from airflow_snowpack.jobs import Jobs
from airflow_snowpack.runners.images import ImageBuild, ImageBuilds, ImageRecord, ImageRecords, ImageState, registry
from airflow_snowpack.runners.images.builders import BuildJob
from airflow_snowpack.store import AuditTrail

pytestmark = pytest.mark.one_database


@pytest.fixture
def made(jobs: Jobs) -> MadeImages:
    return make_images(jobs.store)


def changes(jobs: Jobs) -> list[tuple[str, str, str]]:
    return [(entry.actor, entry.change, entry.subject) for entry in AuditTrail(jobs.store).latest()]


def test_images_are_a_table_for_people_and_data_for_programs_each_with_its_explanation_or_its_log(
    snowpack: Run, made: MadeImages
) -> None:
    listed = snowpack("images", "list").out
    for text in (made.ready.key[:12], "https://github.com/acme/score.git", "4b825dc642cb", "building", "next-model", "3 tasks"):
        assert text in listed
    assert made.ready.key not in listed
    body = snowpack("images", "list", "--state", "ready", "-o", "json").json
    assert [each["key"] for each in body["images"]] == [made.ready.key, made.on_one_host.key]
    first = snowpack("images", "list", "--limit", "4", "-o", "json").json
    rest = snowpack("images", "list", "--cursor", first["next"], "-o", "json").json
    assert [each["key"] for page in (first, rest) for each in page["images"]] == made.keys
    assert snowpack("images", "list", "-o", "plain").out.count(made.ready.key) == 1
    assert snowpack("images", "list", "--cursor", "bent").code == 2

    shown = snowpack("images", "show", made.building.key[:8]).out
    assert f"is being built by {HOLDER} (attempt" in shown
    assert all(f"{task}, since" in shown for task in WAITING)
    assert f"attempt 1 running, just now, in 0 s, by {HOLDER}" in re.sub(r"in \d+(\.\d)? s", "in 0 s", shown)
    assert snowpack("images", "show", made.failed.key, "--log").out == f"{LOG}\n"
    unfinished = snowpack("images", "show", made.building.key, "--log")
    assert (unfinished.out, "No attempt has ended." in unfinished.err) == ("", True)
    assert snowpack("images", "show", made.ready.key, "-o", "json").json["reference"] == made.ready.reference
    assert "reference" not in shown

    for key, code in [("0" * 64, 4), ("00000000", 4), ("0000", 2), ("no-key", 4)]:
        assert snowpack("images", "show", key).code == code


def test_images_are_forgotten_after_a_confirmation(snowpack: Run, made: MadeImages, jobs: Jobs) -> None:
    unasked = snowpack("images", "forget", made.failed.key)
    assert (unasked.code, f"Forget {made.failed.key[:12]}?" in unasked.err, changes(jobs)) == (2, True, [])
    done = snowpack("images", "forget", made.failed.key[:10], made.ready.key, made.failed.key, "--yes")
    assert done.code == 0
    assert f"Forgot {made.failed.key[:12]} of https://github.com/acme/score.git.\n" in done.out
    assert f"The image stays where it is: {made.ready.reference}.\n" in done.out
    assert set(changes(jobs)) == {("ann", "forget_image", f"image:{image.key}") for image in (made.failed, made.ready)}
    assert len(made.keys) == 3


def test_only_a_build_needs_the_connection_of_the_registry(
    snowpack: Run, made: MadeImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW__SNOWPACK__IMAGE_REGISTRY_CONN_ID", "nowhere")
    assert made.ready.key[:12] in snowpack("images", "list").out
    assert snowpack("images", "show", made.ready.key).code == 0
    assert snowpack("images", "forget", made.ready.key, "--yes").code == 0
    build = snowpack("images", "build", "https://github.com/acme/score.git")
    assert (build.code, "nowhere" in build.err) == (1, True)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    found = Repository(tmp_path / "score.git")
    found.commit({"Dockerfile": "FROM scratch\n"})
    return found


def building(monkeypatch: pytest.MonkeyPatch, work: Callable[[BuildJob], object]) -> None:
    """Make commands build with a builder that does this."""
    monkeypatch.setattr(registry, "builder_for", lambda target: NotedBuilder(work))


def test_sigterm_returns_the_build_to_the_queue(
    snowpack: Run, repository: Repository, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    building(monkeypatch, lambda job: os.kill(os.getpid(), signal.SIGTERM))
    ended = snowpack("images", "build", repository.url)
    assert (ended.code, ended.out, "Interrupted." in ended.err) == (130, "", True)
    (image,) = ImageRecords(jobs.store).list().items
    assert (image.state, image.attempts, image.holder) == (ImageState.WAITING, 0, None)
    assert signal.getsignal(signal.SIGTERM) is before
    assert changes(jobs) == [("ann", "build_image", f"image:{image.key}")]


def test_a_build_that_fails_is_reported_with_its_error(
    snowpack: Run, repository: Repository, jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    building(monkeypatch, lambda job: job.commands.run(["sh", "-c", "echo STEP 1; echo no such base >&2; exit 3"], job.scratch))
    monkeypatch.setenv("AIRFLOW__SNOWPACK__MAX_ATTEMPTS", "1")
    failed = snowpack("images", "build", repository.url)
    assert (failed.code, failed.out) == (1, "")
    assert "no such base" in failed.err
    assert snowpack("images", "list", "-o", "json").json["images"][0]["state"] == "failed"


def test_a_build_waits_no_longer_than_its_timeout(snowpack: Run, made: MadeImages, monkeypatch: pytest.MonkeyPatch) -> None:
    building(monkeypatch, lambda job: None)
    image = made.building
    monkeypatch.setattr(installation.Installation, "image_builds", made.builds)
    waited = snowpack("images", "build", image.remote, "--revision", image.commit, "--timeout", "0s", "--poll", "1h")
    assert (waited.code, waited.out) == (124, "")
    assert waited.err.count(f"is being built by {HOLDER} (attempt") == 1
    assert f"Timed out after 0s. Show the image with: airflow snowpack images show {image.key[:12]}\n" in waited.err


def test_a_build_of_another_process_is_waited_for_and_explained_once(jobs: Jobs, capsys: pytest.CaptureFixture[str]) -> None:
    maker = ImageMaker(jobs.store)
    attempt = maker.begin(maker.request())
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            maker.succeed(attempt)

    from airflow_snowpack.cli.commands.images import build_or_wait

    ready = build_or_wait(maker.builds, ImageBuild(SCORE, COMMIT), poll=timedelta(seconds=5), sleep=sleep)
    assert (ready.key, ready.state, sleeps) == (attempt.key, ImageState.READY, [5.0, 5.0, 5.0])
    assert capsys.readouterr().err.count("is being built by") == 1


def test_an_image_that_cannot_be_built_as_requested_is_refused_at_once(snowpack: Run) -> None:
    for arguments, said in [
        (["https://ann:secret@github.com/acme/score.git"], "it must not contain credentials"),
        (["https://github.com/acme/score.git", "--revision", "a..b"], "it must be the name of a branch or a tag"),
        (["https://github.com/acme/score.git", "--build-arg", "PYTHON"], "--build-arg 'PYTHON' has no value"),
        (["https://github.com/acme/score.git", "--build-arg", "PATH=/tmp"], "the builder itself reads a variable of this name"),
        (["https://github.com/acme/score.git", "--timeout", "soon"], "--timeout"),
    ]:
        refused = snowpack("images", "build", *arguments)
        assert (refused.code, said in refused.err) == (2, True), refused.err
        assert "secret" not in refused.err


def test_an_image_that_is_forgotten_during_the_wait_is_requested_again(
    jobs: Jobs, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_snowpack.cli.commands.images import build_or_wait

    maker = ImageMaker(jobs.store)
    source = ImageBuild(repository.url, "main")
    key = maker.builds.ensure(source).key
    maker.begin(key)
    known, forgotten = ImageBuilds.get, []

    def get(self: ImageBuilds, asked: str) -> ImageRecord:
        if not forgotten:
            forgotten.append(self.forget(asked))
        return known(self, asked)

    monkeypatch.setattr(ImageBuilds, "get", get)
    ready = build_or_wait(maker.builds, source, poll=timedelta(seconds=5), sleep=lambda _: None)
    assert (ready.key, ready.state, len(forgotten)) == (key, ImageState.READY, 1)
