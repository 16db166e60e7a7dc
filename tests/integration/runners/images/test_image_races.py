"""Processes that request, build and lose images at the same time: one build counts, whatever happens to the others."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import psutil
import pytest
from bounded import PATIENCE_S, output_of, started
from effort import rounds
from image_world import DIGEST, REGISTRY, NotedBuilder, Repository

from airflow_snowpack.runners.images import Building, ImageBuild, ImageBuilds, ImageTarget, Ready
from airflow_snowpack.store import open_store, utc_now

pytestmark = pytest.mark.both_in_soak

SCRIPT = Path(__file__).parents[3] / "support" / "image_process.py"
DOCKERFILE = {"Dockerfile": "FROM scratch\nCOPY Dockerfile /\n"}
PAST_THE_LEASE = timedelta(minutes=31)
STRIDE = rounds(3, soak=1)


def together(*arguments: str) -> list[dict[str, object]]:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "together", *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    answers: list[dict[str, object]] = json.loads(done.stdout.splitlines()[-1])
    return answers


def test_eight_processes_that_request_an_image_make_one_build(store_url: str, repository: Repository) -> None:
    commit = repository.commit(DOCKERFILE)
    answers = together(store_url, repository.url, commit, "8")
    assert [answer["built"] for answer in answers].count(1) == 1
    assert [answer["built"] for answer in answers].count(0) == 7
    assert sorted(str(answer["first"]) for answer in answers) == ["Building"] * 7 + ["Ready"]
    assert {answer["reference"] for answer in answers} == {f"{REGISTRY.name}@{DIGEST}"}
    with open_store(store_url) as store:
        (record,) = ImageBuilds(store, ImageTarget(registry=REGISTRY)).list().items
        assert record.attempts == 1


@pytest.mark.one_database
def test_eight_processes_make_one_build_with_buildah(
    store_url: str, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("buildah") is None:
        pytest.skip("NO BUILDAH HERE: no image was built with it. Install the package `buildah`.")
    storage = tmp_path / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\ngraphroot = "{tmp_path / "graph"}"\nrunroot = "{tmp_path / "run"}"\n')
    monkeypatch.setenv("CONTAINERS_STORAGE_CONF", str(storage))
    answers = together(store_url, repository.url, repository.commit(DOCKERFILE), "8", "buildah")
    assert sum(int(str(answer["built"])) for answer in answers) == 1
    assert len({answer["reference"] for answer in answers}) == 1
    stored = subprocess.run(["buildah", "images", "--json"], check=True, capture_output=True, text=True)
    assert len(json.loads(stored.stdout)) == 1


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
def test_a_builder_that_is_gone_is_replaced_after_its_lease_and_its_late_result_refused(
    store_url: str, repository: Repository, tmp_path: Path, *, is_killed: bool
) -> None:
    source = ImageBuild(repository.url, repository.commit(DOCKERFILE))
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    command: list[str | Path] = [sys.executable, SCRIPT, "one", store_url, repository.url, source.revision, fifo]
    with started(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("building "), line
        scratch = Path(line.split()[1])
        ended = [
            os.pidfd_open(each.pid) for each in psutil.process_iter(["cmdline"]) if str(scratch) in (each.info["cmdline"] or ())
        ]
        assert ended, "the supervisors of its program have it among their arguments"
        process.send_signal(signal.SIGKILL if is_killed else signal.SIGSTOP)
        if is_killed:
            process.wait(PATIENCE_S)

        with open_store(store_url) as store:
            within = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=NotedBuilder())
            waiting = within.ensure(source, build=True, holder="second")
            assert isinstance(waiting, Building)
            assert (waiting.holder, waiting.is_free) == ("first", False)

        with open_store(store_url, clock=lambda: utc_now() + PAST_THE_LEASE) as later:
            images = ImageBuilds(later, ImageTarget(registry=REGISTRY), builder=NotedBuilder())
            found = images.ensure(source, build=True, holder="second")
            assert isinstance(found, Ready)
            assert images.get(found.key).attempts == 2

        if is_killed:  # with its program and its folder
            assert all(select.select([each], [], [], PATIENCE_S)[0] for each in ended)
            assert not scratch.exists()
            return
        process.send_signal(signal.SIGCONT)
        with open(fifo, "w"):  # the build goes on and ends
            pass
        *lines, last = process.stdout.read().splitlines()
        assert json.loads(last) == ["Ready", DIGEST, []]  # the other's image; it has published none
        assert [line.partition(":")[0] for line in lines] == ["writeback_stale_attempt"]
    assert not scratch.exists()


@pytest.mark.one_database
def test_an_image_whose_builder_was_killed_at_any_moment_is_built_by_another(store_url: str, repository: Repository) -> None:
    commit = repository.commit(DOCKERFILE)
    last = int(output_of(sys.executable, SCRIPT, "killed", store_url, repository.url, commit, str(STRIDE)))
    assert last > 15
    moments = range(1, last + 1, STRIDE)
    with open_store(store_url, clock=lambda: utc_now() + PAST_THE_LEASE) as store:
        images = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=NotedBuilder())
        attempts = []
        for moment in moments:
            found = images.ensure(ImageBuild(repository.url, commit, build_args={"MOMENT": str(moment)}), build=True)
            assert isinstance(found, Ready)
            attempts.append(images.get(found.key).attempts)
        assert set(attempts) == {1, 2}
        assert attempts[-1] == 1
        assert len(images.list().items) == len(moments)
