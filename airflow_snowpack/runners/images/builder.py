"""What a builder of images is: the protocol, and what it is given.

    image_id = builder.build(job)            # nothing is visible under the tag yet
    digest = builder.publish(job, image_id)  # now it is

Building and publishing are two steps, so that an attempt that has lost its lease publishes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from airflow_snowpack.runners.images.commands import Commands
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget


@dataclass(frozen=True, slots=True)
class BuildJob:
    """One attempt to build an image.

    :param source: pinned to a commit.
    :param context: the folder with the files of the commit.
    :param dockerfile: the Dockerfile, below ``context``.
    :param scratch: a folder for files of the builder, which is removed afterwards.
    :param commands: runs the builder's programs.
    """

    source: ImageBuild
    target: ImageTarget
    key: str
    context: Path
    dockerfile: Path
    scratch: Path
    commands: Commands

    @property
    def tag(self) -> str:
        """The name that the image is published under."""
        return self.target.tag(self.key)


class Builder(Protocol):
    """Builds images and stores them; all programs go through ``commands``, which ends them."""

    def preflight(self, commands: Commands, scratch: Path) -> None:
        """:raises BuilderUnavailable: it is not installed on this host, or its daemon does not answer."""
        ...

    def build(self, job: BuildJob) -> str:
        """Build the image; return its id.

        :raises CommandFailed: the Dockerfile or the builder failed.
        """
        ...

    def publish(self, job: BuildJob, image_id: str) -> str:
        """Store the image under its tag, in the registry if there is one.

        :returns: the digest in the registry; without a registry, the image's id.
        :raises CommandFailed: the registry refused it, and the image is still on this host.
        """
        ...

    def has(self, image: str, commands: Commands, scratch: Path) -> bool:
        """Return whether this host has an image of this tag or id."""
        ...
