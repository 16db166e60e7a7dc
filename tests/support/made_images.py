"""Images in every state, for the tests of their API, command line and pages, and for the pictures in the documentation.

    made = make_images(store)
    made.failed.key

Everything was written by the registry's own statements; no builder ran.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from image_world import NotedBuilder

from airflow_snowpack.runners.images import Building, ImageBuild, ImageBuilds, ImagePolicy, ImageRecord, ImageTarget, Registry
from airflow_snowpack.runners.images.attempts import ImageAttempt, ImageAttempts
from airflow_snowpack.runners.images.records import requested
from airflow_snowpack.runners.images.target import image_key
from airflow_snowpack.store import Store, new_id
from airflow_snowpack.store.dialect import insert
from airflow_snowpack.store.tables.images import image_builds

COMMIT, FAILED_COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904", "5b5fa1ce" * 5
SCORE, FEATURES, REPORTS = (f"https://github.com/acme/{name}.git" for name in ("score", "features", "reports"))
REGISTRY = ImageTarget("buildah", Registry("registry.example.com", "acme/images"), "worker-1", "linux/amd64")
ONE_HOST = ImageTarget("docker", None, "worker-2", "linux/amd64")
HOLDER = "flights/manual__2026-11-21T06:00:00+00:00/score"
WAITING = [f"flights/manual__2026-11-21T0{hour}:00:00+00:00/score" for hour in (7, 8, 9)]
LOG = """\
STEP 1/4: FROM docker.io/library/python:3.12-slim
STEP 2/4: COPY requirements.txt /app/
STEP 3/4: RUN pip install --no-cache-dir --requirement /app/requirements.txt
ERROR: Could not find a version that satisfies the requirement lightgbm==4.9.9 (from versions: 4.5.0, 4.6.0)
ERROR: No matching distribution found for lightgbm==4.9.9
Error: building at STEP "RUN pip install --no-cache-dir --requirement /app/requirements.txt": exit status 1"""
ERROR = "buildah ended with exit code 1: RUN pip install --no-cache-dir --requirement /app/requirements.txt"


@dataclass(frozen=True)
class MadeImages:
    """The images.

    :ivar ready: in the registry; ``on_one_host`` is ready without one.
    :ivar building: by a task instance.
    :ivar waiting: for its second attempt.
    :ivar failed: after its last attempt, with a log.
    """

    builds: ImageBuilds
    ready: ImageRecord
    on_one_host: ImageRecord
    building: ImageRecord
    waiting: ImageRecord
    failed: ImageRecord

    @property
    def keys(self) -> list[str]:
        """The latest request first."""
        return [each.key for each in self.builds.list().items]


class ImageMaker:
    """Requests images, and claims and ends their attempts.

    :param move: moves the store's clock while an attempt runs.
    """

    def __init__(self, store: Store, policy: ImagePolicy | None = None, move: Callable[..., None] = lambda **_: None) -> None:
        self.builds = ImageBuilds(store, REGISTRY, policy, builder=NotedBuilder())
        self._store = store
        self._move = move
        self.attempts = ImageAttempts(store, self.builds.policy, new_id)

    def request(
        self, remote: str = SCORE, commit: str = COMMIT, revision: str = "main",
        target: ImageTarget = REGISTRY, dockerfile: str = "Dockerfile", **build_args: str,
    ) -> str:  # fmt: skip
        """Return the key of an image that no process builds yet."""
        source = ImageBuild(remote, commit, dockerfile, build_args)
        key = image_key(source, target)
        self._store.execute(insert(image_builds).values(requested(key, source, revision, target, self._store.clock())))
        return key

    def begin(self, key: str, holder: str = HOLDER) -> ImageAttempt:
        """Claim an image."""
        attempt = self.attempts.claim(key, holder, is_task=True)
        assert attempt is not None
        return attempt

    def wait(self, task: str, remote: str = SCORE, commit: str = COMMIT) -> None:
        """Let a task request an image that is not ready."""
        assert isinstance(self.builds.ensure(ImageBuild(remote, commit), build=True, holder=task), Building)

    def succeed(self, attempt: ImageAttempt, target: ImageTarget = REGISTRY) -> None:
        """Record the image of an attempt."""
        key, digest = attempt.key, f"sha256:{attempt.key[::-1]}"
        self._move(minutes=2, seconds=14)
        reference = target.tag(key) if target.registry is None else f"{target.registry.name}@{digest}"
        assert self.attempts.succeed(attempt, reference, digest, "STEP 1/1: FROM scratch\nCOMMIT")

    def fail(self, attempt: ImageAttempt, error: str = ERROR, log: str = LOG, *, is_final: bool = False) -> None:
        """Record the failure of an attempt."""
        self._move(seconds=48)
        assert self.attempts.fail(attempt, error, log, is_final=is_final)


def failed_key() -> str:
    """Return the key of the image that failed."""
    return image_key(ImageBuild(SCORE, FAILED_COMMIT), REGISTRY)


def make_images(store: Store, move: Callable[..., None] = lambda **_: None) -> MadeImages:
    """Make them all.

    :param move: moves the store's clock between two steps.
    """
    # Back-offs of an hour: the waiting image still waits when a test looks at it.
    maker = ImageMaker(store, ImagePolicy(retry_base=timedelta(hours=1)), move)
    on_one_host = maker.request(REPORTS, "aa3d6d2c" * 5, "v1.4", ONE_HOST, dockerfile="docker/Dockerfile")
    move(minutes=10)
    maker.succeed(maker.begin(on_one_host), ONE_HOST)
    move(minutes=20)
    ready = maker.request(FEATURES, "0c937def" * 5, PYTHON="3.12")
    maker.succeed(maker.begin(ready))
    move(minutes=35)
    failed = maker.request(SCORE, FAILED_COMMIT, "next-model")
    at_once = ImageMaker(store, ImagePolicy(retry_base=timedelta(0)), move)
    for _ in range(3):
        at_once.fail(at_once.begin(failed))
    move(minutes=30)
    waiting = maker.request(REPORTS, "77c1d20e" * 5)
    maker.fail(maker.begin(waiting), "The registry registry.example.com does not answer", "")
    move(minutes=20)
    building = maker.request()
    maker.begin(building)
    move(minutes=1)
    for task in WAITING:
        maker.wait(task)
    move(minutes=2)
    return MadeImages(maker.builds, *(maker.builds.get(key) for key in (ready, on_one_host, building, waiting, failed)))
