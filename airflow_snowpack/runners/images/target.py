"""Where built images are stored, and by which builder: in a registry that all hosts use, or only on this host.

    ImageTarget(builder="buildah", registry=Registry("registry.example.com", "team/images", login="ci", password="…"))
    ImageTarget(builder="docker")                      # without a registry
    image_key(source.at(commit), target)               # 64 hexadecimal digits; target.tag(key) contains all of them

The invariant: the place of an image is part of its key. Without a registry the place includes the host and the builder, whose
storages are separate: each host then builds the images that its tasks need.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import socket
from dataclasses import dataclass, field

from airflow_snowpack.runners.images.errors import InvalidImageTarget
from airflow_snowpack.runners.images.source import ImageBuild

BUILDERS = ("docker", "buildah", "podman")
REPOSITORY = "snowpack"
HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?")
REPOSITORY_NAME = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
KEY_VERSION = 1
"""Increase it when a change to how images are built changes their content."""
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Registry:
    """A container registry to which workers push images, and from which runners pull them.

    :param host: with its port, if any: ``registry.example.com:5000``.
    :param repository: the repository of all images; each image is a tag of it.
    :param is_plain_http: connect without TLS, for a registry on a private network.
    :raises InvalidImageTarget: the host or the repository is not valid.
    """

    host: str
    repository: str = REPOSITORY
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    is_plain_http: bool = False

    def __post_init__(self) -> None:
        if not HOST.fullmatch(self.host):
            raise InvalidImageTarget("the host of the registry", self.host, "it must be a host name, with or without a port")
        if not REPOSITORY_NAME.fullmatch(self.repository):
            raise InvalidImageTarget("repository", self.repository, "it must be lower-case names with slashes between them")

    @property
    def name(self) -> str:
        """The host and the repository, as in the references of its images."""
        return f"{self.host}/{self.repository}"

    @property
    def is_docker_hub(self) -> bool:
        """Return whether it is the registry of image names without a host."""
        return self.host in ("docker.io", "index.docker.io")


@dataclass(frozen=True, slots=True)
class ImageTarget:
    """The builder of this installation, and where its images go.

    :param builder: one of :data:`BUILDERS`.
    :param registry: ``None``: images stay on the host that built them.
    :param host: the name of this host.
    :param platform: the operating system and architecture of images.
    :raises InvalidImageTarget: there is no builder of this name.
    """

    builder: str = "docker"
    registry: Registry | None = None
    host: str = field(default_factory=socket.gethostname)
    platform: str = field(default_factory=lambda: this_platform())

    def __post_init__(self) -> None:
        if self.builder not in BUILDERS:
            raise InvalidImageTarget("image_builder", self.builder, f"it must be one of {', '.join(BUILDERS)}")

    @property
    def place(self) -> str:
        """Where the images are: the registry's repository, or ``host:NAME/BUILDER``."""
        return f"host:{self.host}/{self.builder}" if self.registry is None else self.registry.name

    def tag(self, key: str) -> str:
        """Return the name under which an image with this key is stored."""
        if self.registry is not None:
            return f"{self.registry.name}:{key}"
        # Buildah and Podman store a name without a host under localhost.
        return f"{REPOSITORY}:{key}" if self.builder == "docker" else f"localhost/{REPOSITORY}:{key}"


def this_platform() -> str:
    """Return the platform of images that run on this host, such as ``linux/amd64``."""
    machine = platform.machine().lower()
    return f"linux/{ARCHITECTURES.get(machine, machine)}"


def image_key(source: ImageBuild, target: ImageTarget) -> str:
    """Return the key of a build that is pinned to a commit: SHA-256 of what decides what the image contains and where it is.

    Two builds have the same key if and only if they are interchangeable.
    """
    if not source.is_pinned:
        raise ValueError(f"The revision {source.revision!r} is not a commit, which the key of an image needs. Resolve it first.")
    description = {
        "version": KEY_VERSION,
        "remote": source.remote,
        "commit": source.revision,
        "dockerfile": source.dockerfile,
        "build_args": dict(source.build_args),
        "platform": target.platform,
        "place": target.place,
    }
    canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
