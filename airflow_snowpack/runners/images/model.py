"""The values of the registry of images: the result of a request, and the record of an image."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class ImageState(StrEnum):
    """The state of an image.

    ``WAITING``: it may be built, now or after a back-off. ``BUILDING``: a process has the lease. ``READY``: it can be used.
    ``FAILED``: every attempt failed.
    """

    WAITING = "waiting"
    BUILDING = "building"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Ready:
    """An image that can be used.

    :param reference: what a container is started from: ``registry/repository@sha256:…``, or the tag of an image of this host.
    :param digest: the digest of the manifest in the registry; without a registry, the id of the image.
    """

    key: str
    commit: str
    reference: str
    digest: str


@dataclass(frozen=True, slots=True)
class Building:
    """An image that is not ready yet.

    :param since: the beginning of the attempt; while no process builds it, the time of the request.
    :param holder: the process that builds it; ``None`` if none does.
    :param until: no other process may build it before this time: the end of the lease, or of a back-off.
    :param is_free: this time has passed: the next :meth:`ImageBuilds.ensure` with ``build=True`` builds it.
    :param attempt: the number of attempts, including this one.
    """

    key: str
    commit: str
    since: datetime
    holder: str | None
    until: datetime
    is_free: bool
    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An image that could not be built; a request from ``retry_at`` on tries again."""

    key: str
    commit: str
    error: str
    attempts: int
    retry_at: datetime


@dataclass(frozen=True, slots=True)
class ImageRecord:
    """The record of an image.

    :param key: SHA-256 of everything that decides what the image contains and where it is.
    :param revision: the branch or tag of the first request.
    :param commit: what the revision was resolved to.
    :param build_args: the names of the build arguments; their values are part of the key, and not on record.
    :param place: the registry's repository, or ``host:NAME/BUILDER`` for an image that exists on one host only.
    :param tag: the name under which the builder stores the image.
    :param reference: what a container is started from; ``None`` until the image is ready.
    :param digest: as in :class:`Ready`; while the push is retried, the id of the image on the host that built it.
    :param holder, lease_until: the process that builds it, and the end of its lease; ``None`` if none does.
    :param available_at: when it may be built, for an image that waits.
    :param attempts: how many times a process began to build it.
    :param error: why the last attempt failed.
    :param waiting: how many tasks wait for it.
    """

    key: str
    remote: str
    revision: str
    commit: str
    dockerfile: str
    build_args: tuple[str, ...]
    platform: str
    place: str
    tag: str
    state: ImageState
    reference: str | None
    digest: str | None
    requested_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    used_at: datetime
    holder: str | None
    lease_until: datetime | None
    available_at: datetime | None
    attempts: int
    error: str | None
    waiting: int


@dataclass(frozen=True, slots=True)
class ImageWait:
    """A task that waits for an image.

    :param task: the task instance.
    :param since: when it first had to wait.
    """

    task: str
    since: datetime


class AttemptOutcome(StrEnum):
    """How an attempt to build an image ended.

    ``RUNNING``: it has the lease, or had it last. ``STOPPED``: its process ended the build, and the attempt does not count.
    ``UNPUSHED``: it built the image, which the registry did not accept; it does not count either, and the push is retried.
    ``LOST``: its lease expired, or a later try of its task took over the build.
    """

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    UNPUSHED = "unpushed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """An attempt to build an image, running or ended.

    :param number: from 1; an attempt that was stopped, or whose image could not be pushed, passes its number to the next.
    :param holder: the process that built the image.
    """

    number: int
    holder: str
    started_at: datetime
    ended_at: datetime | None
    outcome: AttemptOutcome
    error: str | None


@dataclass(frozen=True, slots=True)
class ImagePolicy:
    """Periods and limits.

    :param lease: how long a claim lasts without a heartbeat.
    :param heartbeat: the period of renewals.
    :param max_attempts: after this many failed attempts, the image has failed.
    :param retry_base: after its ``n``-th failed attempt, an image waits ``retry_base * 2 ** n``.
    :param retry_failed_after: a failed image is tried again when it is requested this long after its last attempt.
    """

    lease: timedelta = timedelta(minutes=30)
    heartbeat: timedelta = timedelta(minutes=1)
    max_attempts: int = 3
    retry_base: timedelta = timedelta(seconds=30)
    retry_failed_after: timedelta = timedelta(hours=1)
