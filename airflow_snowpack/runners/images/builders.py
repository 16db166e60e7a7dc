"""Builds images with Docker, Buildah or Podman, and pushes them in a separate step.

    image_id = builder.build(job)            # nothing is visible under the tag yet
    digest = builder.publish(job, image_id)  # now it is

An attempt that has lost its lease therefore publishes nothing. All programs run through ``Commands``, which ends them.
"""

from __future__ import annotations

import base64
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from airflow_snowpack.runners.errors import EntryNotStarted
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.errors import BuilderUnavailable
from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget, Registry

CREDENTIALS = "config.json"
DOCKER_HUB = "https://index.docker.io/v1/"
"""Docker's name for ``docker.io`` in its credentials."""


@dataclass(frozen=True, slots=True)
class BuildJob:
    """One attempt to build an image.

    :param source: pinned to a commit.
    :param context: the folder with the files of the commit.
    :param dockerfile: the Dockerfile, below ``context``.
    :param scratch: a folder for files of the builder, removed afterwards.
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
        """The name under which the image is published."""
        return self.target.tag(self.key)

    @property
    def labels(self) -> dict[str, str]:
        """Labels from which people learn what the image was built from."""
        return {
            "org.opencontainers.image.source": self.source.remote,
            "org.opencontainers.image.revision": self.source.revision,
            "airflow-snowpack.key": self.key,
        }


class Builder:
    """A program that builds images: ``buildah`` or ``podman``, which share their storage and most options, and need no daemon.

    :param program: the command.
    :cvar check: the arguments that show whether it works.
    :cvar problem: what a failure of this check means.
    :cvar find: the arguments that find an image of this host.
    """

    check: tuple[str, ...] = ("version",)
    problem = ""
    find: tuple[str, ...] = ("images", "--quiet")

    def __init__(self, program: str) -> None:
        self.program = program

    def preflight(self, commands: Commands, scratch: Path) -> None:
        """:raises BuilderUnavailable: it is not installed on this host, or does not work."""
        name = Path(self.program).name
        try:
            commands.run([self.program, *self.check], scratch, is_logged=False)
        except EntryNotStarted as error:
            raise BuilderUnavailable(name, f"the command `{name}` is not installed") from error
        except CommandFailed as error:
            raise BuilderUnavailable(name, f"{self.problem}`{name} version` {error.problem}") from error

    def has(self, image: str, commands: Commands, scratch: Path) -> bool:
        """Return whether this host has an image with this tag or id."""
        try:
            return bool(commands.run([self.program, *self.find, image], scratch, is_logged=False))
        except CommandFailed:
            return False

    def build(self, job: BuildJob) -> str:
        """Build the image under no name; return its id.

        Only the name of a build argument is on the command line: the builder takes its value from its environment.

        :raises CommandFailed: the Dockerfile or the builder failed.
        """
        id_file, (login, environment) = job.scratch / "image-id", self._login(job)
        options = [f"--file={job.dockerfile}", f"--platform={job.target.platform}", f"--iidfile={id_file}"]
        options += [f"--label={name}={value}" for name, value in job.labels.items()]
        options += [f"--build-arg={name}" for name in sorted(job.source.build_args)]
        argv = [self.program, *self.build_command(job), *options, *login, str(job.context)]
        job.commands.run(argv, job.scratch, {**job.source.build_args, **environment})
        return id_file.read_text().strip()

    def publish(self, job: BuildJob, image_id: str) -> str:
        """Store the image under its tag, in the registry if there is one.

        :returns: the digest in the registry; without a registry, the image's id.
        :raises CommandFailed: the registry refused it, and the image is still on this host.
        """
        if job.target.registry is not None:
            return self.push(job, job.target.registry, image_id)
        job.commands.run([self.program, "tag", image_id, job.tag], job.scratch)
        return image_id

    def build_command(self, job: BuildJob) -> list[str]:
        """Return the command that builds, with the options that only this builder has."""
        # With its cache, Buildah 1.28 reuses the labels of an image with another value of a build argument.
        return ["build", "--no-cache" if job.source.build_args else "--layers"]

    def push(self, job: BuildJob, registry: Registry, image_id: str) -> str:
        """Push the image under its tag; return its digest."""
        digest_file, (login, _) = job.scratch / "digest", self._login(job)
        options = [f"--digestfile={digest_file}", *login, *(["--tls-verify=false"] if registry.is_plain_http else [])]
        job.commands.run([self.program, "push", *options, image_id, f"docker://{job.tag}"], job.scratch)
        return digest_file.read_text().strip()

    def _login(self, job: BuildJob) -> tuple[list[str], dict[str, str]]:
        """Return the options and the environment for the registry's credentials; without any, the worker's own apply."""
        registry, folder = job.target.registry, job.scratch / "credentials"
        if registry is None or token(registry) is None:
            return [], {}
        if not folder.exists():
            self.write_login(registry, folder)
        return self.with_login(folder)

    def write_login(self, registry: Registry, folder: Path) -> None:
        """Write the credentials of the registry together with the worker's own, which this builder would otherwise read."""
        runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "containers" / "auth.json"
        own = runtime if runtime.exists() else Path.home() / ".docker" / "config.json"
        write_credentials(registry, folder, Path(os.environ.get("REGISTRY_AUTH_FILE") or own))

    def with_login(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return the options and the environment for the credentials in a folder."""
        return [f"--authfile={folder / CREDENTIALS}"], {}


class Docker(Builder):
    """The builder ``docker``: BuildKit through ``docker buildx build`` where the plugin is installed, else ``docker build``."""

    check = ("version", "--format", "{{.Server.Version}}")
    problem = "the Docker daemon does not answer: "
    find = ("image", "inspect", "--format", "{{.Id}}")

    def __init__(self, program: str = "docker") -> None:
        super().__init__(program)

    def build_command(self, job: BuildJob) -> list[str]:
        try:
            job.commands.run([self.program, "buildx", "version"], job.scratch, is_logged=False)
        except CommandFailed:
            return ["build"]
        # Without --load, a builder in a container keeps the image to itself.
        return ["buildx", "build", "--load", "--progress=plain"]

    def push(self, job: BuildJob, registry: Registry, image_id: str) -> str:
        """Push the image under its tag, and read its digest from the daemon."""
        job.commands.run([self.program, "tag", image_id, job.tag], job.scratch)
        job.commands.run([self.program, "push", job.tag], job.scratch, self._login(job)[1])
        inspect = [self.program, "image", "inspect", "--format", "{{json .RepoDigests}}", job.tag]
        digests = json.loads("".join(job.commands.run(inspect, job.scratch, is_logged=False)))
        # Docker reports a Docker Hub name without the host.
        prefix = f"{registry.repository if registry.is_docker_hub else registry.name}@"
        found = [digest.removeprefix(prefix) for digest in digests or () if digest.startswith(prefix)]
        if not found:
            raise CommandFailed(self.program, "reported no digest after the push")
        return str(found[-1])

    def write_login(self, registry: Registry, folder: Path) -> None:
        """Write a configuration with the credentials of the registry, and the rest of the worker's own."""
        own = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
        write_credentials(registry, folder, own / CREDENTIALS, for_docker=True)
        for name in ("contexts", "cli-plugins", "buildx"):  # Docker searches these beside the configuration
            if (own / name).is_dir():
                (folder / name).symlink_to(own.absolute() / name)

    def with_login(self, folder: Path) -> tuple[list[str], dict[str, str]]:
        """Return the environment for the configuration in a folder."""
        return [], {"DOCKER_CONFIG": str(folder)}


def builder_for(target: ImageTarget) -> Builder:
    """Return the builder that a target names, by the setting ``[snowpack] image_builder``."""
    return Docker() if target.builder == "docker" else Builder(target.builder)


def token(registry: Registry) -> str | None:
    """Return user and password as the file has them; ``None`` without a login."""
    if not registry.login and not registry.password:
        return None
    return base64.b64encode(f"{registry.login or ''}:{registry.password or ''}".encode()).decode()


def write_credentials(registry: Registry, folder: Path, own: Path, *, for_docker: bool = False) -> None:
    """Write a file with the registry's credentials that only this user can read: they appear on no command line.

    It also contains what the worker's own file has: a Dockerfile may begin with an image of another private registry.

    :param own: the worker's own file, if it exists.
    :param for_docker: Docker queries its ``credsStore`` for every registry for which ``credHelpers`` has no entry.
    """
    content = _own(own)
    helpers = {host: helper for host, helper in (content.get("credHelpers") or {}).items() if host not in _names(registry)}
    if for_docker:
        helpers |= dict.fromkeys(_names(registry), "")
    content["auths"] = (content.get("auths") or {}) | {name: {"auth": token(registry)} for name in _names(registry)}
    content["credHelpers"] = helpers
    folder.mkdir(mode=0o700)
    with open(os.open(folder / CREDENTIALS, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(content, stream)


def _names(registry: Registry) -> tuple[str, ...]:
    return (registry.host, DOCKER_HUB) if registry.is_docker_hub else (registry.host,)


def _own(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
