"""Errors of images that workers build."""

from __future__ import annotations

from airflow_snowpack.errors import Kind, SnowpackError
from airflow_snowpack.humanize import sentence
from airflow_snowpack.redaction import public_address, redacted

SHOWN_LOG_LINES = 20


class ImageError(SnowpackError, kind=Kind.FAILED):
    """Base class of the errors of images."""


class InvalidImageBuild(ImageError, kind=Kind.INVALID):
    """Invalid description of an image.

    :ivar field: the invalid parameter.
    """

    def __init__(self, field: str, value: object, problem: str) -> None:
        self.field = field
        super().__init__(f"{field} = {value!r:.200} cannot be used: {problem}.")


class RevisionNotFound(ImageError, kind=Kind.NOT_FOUND):
    """The repository has no such branch, tag or commit."""

    def __init__(self, remote: str, revision: str, problem: str) -> None:
        super().__init__(f"The revision {revision!r} of {public_address(remote)} cannot be used: {problem}.")


class RepositoryUnavailable(ImageError, kind=Kind.UNAVAILABLE):
    """The Git repository does not answer."""

    def __init__(self, remote: str, problem: str) -> None:
        super().__init__(
            f"The repository {public_address(remote)} cannot be read: {redacted(problem)}. Check its address, and that workers "
            "may read it without being prompted for a password."
        )


class BuilderUnavailable(ImageError, kind=Kind.MISCONFIGURED):
    """This worker cannot build images."""

    def __init__(self, builder: str, problem: str) -> None:
        super().__init__(
            f"This worker cannot build images with {builder!r}: {sentence(problem)} Install it or start its daemon, set "
            "[snowpack] image_builder to another builder (docker, buildah or podman), or use a prebuilt image (image=…)."
        )


class ImageBuildFailed(ImageError, kind=Kind.FAILED):
    """The image could not be built.

    :ivar log: the end of the build log.
    """

    def __init__(self, key: str, attempts: int, error: str, log: str) -> None:
        self.key, self.log = key, log
        tail = "\n".join(log.splitlines()[-SHOWN_LOG_LINES:])
        times = "1 attempt" if attempts == 1 else f"{attempts} attempts"
        super().__init__(
            f"The image {key[:12]} could not be built in {times}: {error} Fix the cause, then run "
            f"`airflow snowpack images forget {key}` to build it again." + (f"\nEnd of the build log:\n{tail}" if tail else "")
        )


class ImageNotPushed(ImageError, kind=Kind.UNAVAILABLE):
    """The registry did not accept an image that was built.

    :ivar image_id: of the image, which stays on this host.
    """

    def __init__(self, image_id: str, problem: str) -> None:
        self.image_id = image_id
        super().__init__(f"The image was built and is kept, but it could not be pushed to the registry: {sentence(problem)}")


class ImageBuildStopped(ImageError, kind=Kind.FAILED):
    """The build was stopped with its task."""

    def __init__(self, key: str | None = None) -> None:
        super().__init__(
            f"The build of {'the image' if key is None else f'the image {key[:12]}'} was stopped, since its task was cancelled, "
            "killed or ran out of time. It was returned to the queue."
        )


class DockerfileNotFound(ImageError, kind=Kind.NOT_FOUND):
    """The commit has no such Dockerfile."""

    def __init__(self, dockerfile: str, commit: str) -> None:
        super().__init__(f"The commit {commit} has no file {dockerfile!r}. Pass its path from the root of the repository.")


class ImageBuildNotFound(ImageError, kind=Kind.NOT_FOUND):
    """No image of this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"No image was requested under the key {key!r:.80}, or it was forgotten.")


class InvalidImageTarget(ImageError, kind=Kind.MISCONFIGURED):
    """Images cannot be built or stored as configured."""

    def __init__(self, field: str, value: object, problem: str) -> None:
        super().__init__(f"{field} = {value!r:.200} cannot be used: {problem}.")
