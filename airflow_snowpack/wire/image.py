"""Images that workers build from Git repositories."""

from datetime import datetime

from pydantic import Field

from airflow_snowpack.humanize import plural
from airflow_snowpack.runners.images.explanation import SHORT, explain
from airflow_snowpack.runners.images.model import AttemptOutcome, ImagePolicy, ImageRecord, ImageState
from airflow_snowpack.runners.images.records import ImageRecords
from airflow_snowpack.wire.listing import Column, Elapsed, Listing
from airflow_snowpack.wire.shape import Body, Moment, Shape, page_shape

KEY = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


class ImageShape(Shape):
    """An image that workers build from a Git repository."""

    key: str = Field(description="SHA-256 of everything that decides what the image contains and where it is.", examples=[KEY])
    remote: str = Field(description="The repository.", examples=["https://github.com/acme/score.git"])
    revision: str = Field(description="The branch, tag or commit of the first request.", examples=["main"])
    commit: str = Field(description="What the revision was resolved to.", examples=[COMMIT])
    dockerfile: str = Field(examples=["Dockerfile"])
    build_args: list[str] = Field(description="The names of the build arguments. Their values are not on record.")
    platform: str = Field(examples=["linux/amd64"])
    place: str = Field(description="The registry's repository, or `host:NAME/BUILDER` for an image that exists on one host only.")
    tag: str = Field(description="The name under which the builder stores the image.")
    state: ImageState = Field(description="`waiting`: it may be built, now or after a back-off; `failed`: every attempt failed.")
    explanation: str = Field(description="What it waits for, who builds it, or how its build ended.")
    reference: str | None = Field(description="What a container is started from; null until the image is ready.")
    digest: str | None
    requested_at: datetime = Field(description="When it was first requested.")
    used_at: datetime = Field(description="When it was last requested.")
    started_at: Moment = Field(description="The start of the latest attempt.")
    finished_at: Moment = Field(description="The end of the latest attempt that ended.")
    holder: str | None = Field(description="The process that builds it.")
    lease_until: Moment = Field(description="The end of its lease.")
    available_at: Moment = Field(description="When it may be built, for an image that waits.")
    attempts: int = Field(description="How many times a process began to build it.")
    error: str | None = Field(description="Why the latest attempt failed.")
    waiting: int = Field(description="How many tasks wait for it.")


class ImageWaitShape(Shape):
    """A task that waits for an image."""

    task: str = Field(description="The task instance: `dag/run/task`.", examples=["flights/manual__2026-11-21/score"])
    since: datetime = Field(description="When it first had to wait.")


class ImageAttemptShape(Shape):
    """An attempt to build an image."""

    number: int = Field(description="From 1. One that was stopped does not count, and gives its number to the next.")
    holder: str = Field(description="The process that built the image.")
    started_at: datetime
    ended_at: Moment
    outcome: AttemptOutcome = Field(
        description="`stopped` by its own process; `unpushed`: built, and refused by the registry; `lost` with its lease."
    )
    error: str | None


class ImageDetailShape(ImageShape):
    """An image, the tasks that wait for it, and the attempts to build it."""

    waits: list[ImageWaitShape] = Field(description="The first 20 of them.")
    history: list[ImageAttemptShape] = Field(description="The newest 20 attempts, the latest first.")


ImagesShape = page_shape("ImagesShape", "Images, the latest request first.", "images", ImageShape)


def image_body(image: ImageRecord, policy: ImagePolicy, now: datetime) -> Body:
    """Return the JSON of an image, with its explanation."""
    return ImageShape.encode(image, explanation=str(explain(image, policy, now)))


def image_detail(records: ImageRecords, image: ImageRecord) -> Body:
    """Return the JSON of an image, with its explanation, the tasks that wait for it, and the attempts to build it."""
    explanation = str(explain(image, records.policy, records.store.clock()))
    waits, history = records.waits(image.key), records.attempts(image.key)
    return ImageDetailShape.encode(image, explanation=explanation, waits=waits, history=history)


def build_time(image: ImageRecord) -> Elapsed | None:
    """Return the duration of the latest attempt, if it has ended or is running."""
    if image.started_at is None:
        return None
    if image.state is ImageState.BUILDING:
        return Elapsed(image.started_at)
    return None if image.finished_at is None else Elapsed(image.started_at, image.finished_at)


def images(policy: ImagePolicy, now: datetime) -> Listing[ImageRecord]:
    """Return how a list of images is written; the explanation of an image depends on the time."""
    return Listing(
        "images",
        lambda image: image_body(image, policy, now),
        (
            Column("image", "key", lambda image: image.key[:SHORT]),
            Column("repository", "remote"),
            Column("revision", "revision", lambda image: None if image.revision == image.commit else image.revision),
            Column("commit", "commit", lambda image: image.commit[:SHORT]),
            Column("state", "state", state="state"),
            Column("attempts", "attempts"),
            Column("build time", build_time),
            Column("requested", "requested_at"),
            Column("last used", "used_at"),
            Column("built by", "holder"),
            Column("waiting", "waiting", lambda image: plural(image.waiting, "task") if image.waiting else None),
        ),
    )
