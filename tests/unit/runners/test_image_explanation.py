"""Why an image is not ready yet, in the words that the task log, the page, the API and the command line share."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from airflow_snowpack.runners.images.explanation import explain, host_of
from airflow_snowpack.runners.images.model import ImagePolicy, ImageRecord, ImageState

NOW = datetime(2026, 11, 21, 22, 0, tzinfo=UTC)
AGO, AHEAD = NOW - timedelta(minutes=3), NOW + timedelta(minutes=2)
KEY = "9f86d081" * 8
COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
REGISTRY = "registry.example.com/snowpack"
IMAGE = ImageRecord(
    key=KEY,
    remote="https://github.com/acme/score.git",
    revision="main",
    commit=COMMIT,
    dockerfile="Dockerfile",
    build_args=(),
    platform="linux/amd64",
    place=REGISTRY,
    tag=f"{REGISTRY}:{KEY}",
    state=ImageState.WAITING,
    reference=None,
    digest=None,
    requested_at=AGO,
    started_at=None,
    finished_at=None,
    used_at=AGO,
    holder=None,
    lease_until=None,
    available_at=AGO,
    attempts=0,
    error=None,
    waiting=0,
)
BUILDING = {"state": ImageState.BUILDING, "holder": "flights/r1/score", "started_at": AGO, "attempts": 1, "available_at": None}
ENDED = {"attempts": 2, "started_at": AGO, "finished_at": AGO}
FAILED = {**ENDED, "state": ImageState.FAILED, "attempts": 3, "error": "The step RUN pip install ended with exit code 1"}
UNPUSHED = {"digest": "sha256:12ab", "finished_at": AGO, "error": "The image was built and is kept, but it could not be pushed"}
READY = {**ENDED, "state": ImageState.READY, "reference": f"{REGISTRY}@sha256:12ab", "digest": "sha256:12ab"}
NAME = "The image of https://github.com/acme/score.git at 4b825dc642cb (main)"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, f"{NAME} was requested, and no process builds it. The next task that needs it builds it."),
        (
            UNPUSHED | {"available_at": AHEAD},
            f"{NAME} is not ready: The image was built and is kept, but it could not be pushed. The push is retried at "
            "2026-11-21 22:02:00 UTC at the earliest.",
        ),
        (
            UNPUSHED,
            f"{NAME} is not ready: The image was built and is kept, but it could not be pushed. The next task that needs it "
            "retries the push.",
        ),
        (
            BUILDING | {"lease_until": AHEAD},
            f"{NAME} is being built by flights/r1/score (attempt 1 of 3, started at 2026-11-21 21:57:00 UTC).",
        ),
        (
            BUILDING | {"lease_until": NOW},
            f"{NAME} is not ready. The lease of attempt 1 of 3 ran out at 2026-11-21 22:00:00 UTC: its builder flights/r1/score "
            "stopped sending heartbeats. The next task that needs it builds it.",
        ),
        (
            ENDED | {"error": "No space left on the disk.\nmore", "available_at": AHEAD},
            f"{NAME} is not ready: attempt 2 of 3 failed: No space left on the disk. The next attempt starts at "
            "2026-11-21 22:02:00 UTC at the earliest.",
        ),
        (
            BUILDING | {"lease_until": AGO, "attempts": 3},
            f"{NAME} is not ready. The lease of attempt 3 of 3 ran out at 2026-11-21 21:57:00 UTC: its builder flights/r1/score "
            "stopped sending heartbeats. No attempt is left, so the next task that needs it fails.",
        ),
        (
            ENDED | {"error": "No space left on the disk", "place": "host:worker-1/buildah"},
            f"{NAME} is not ready: attempt 2 of 3 failed: No space left on the disk. The next task on the host worker-1 that "
            "needs it builds it.",
        ),
        (
            FAILED,
            f"{NAME} could not be built in 3 attempts: The step RUN pip install ended with exit code 1. Fix the cause, then run "
            f"`airflow snowpack images forget 9f86d0819f86`. A task that needs it tries again from 2026-11-21 22:57:00 UTC.",
        ),
        (
            FAILED | {"finished_at": NOW - timedelta(hours=1)},
            f"{NAME} could not be built in 3 attempts: The step RUN pip install ended with exit code 1. Fix the cause, then run "
            f"`airflow snowpack images forget 9f86d0819f86`. The next task that needs it tries again as well.",
        ),
        (READY, f"{NAME} has been ready since 2026-11-21 21:57:00 UTC: {REGISTRY}@sha256:12ab."),
        (
            READY | {"place": "host:worker-1/docker", "reference": "snowpack:12ab", "revision": COMMIT},
            "The image of https://github.com/acme/score.git at 4b825dc642cb has been ready since 2026-11-21 21:57:00 UTC: "
            "snowpack:12ab. It exists only on the host worker-1.",
        ),
    ],
    ids=[
        "requested",
        "not pushed",
        "to be pushed",
        "building",
        "lost",
        "back-off",
        "lost for good",
        "due again",
        "failed",
        "failed long ago",
        "ready",
        "on one host",
    ],
)
def test_every_state_has_a_sentence_with_what_happens_next(changes: dict[str, Any], text: str) -> None:
    assert str(explain(replace(IMAGE, **changes), ImagePolicy(), NOW)) == text


@pytest.mark.parametrize(
    ("place", "host"),
    [(REGISTRY, None), ("host:worker-1/buildah", "worker-1"), ("host.example.com/images", None)],
)
def test_an_image_without_a_registry_names_its_host(place: str, host: str | None) -> None:
    assert host_of(replace(IMAGE, place=place)) == host
