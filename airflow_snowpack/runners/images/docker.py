"""Builds images with Docker: BuildKit through ``docker buildx build`` where the plugin is installed, else ``docker build``."""

from __future__ import annotations

import json
import os
from pathlib import Path

from airflow_snowpack.runners.errors import EntryNotStarted
from airflow_snowpack.runners.images.builder import BuildJob
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.credentials import token, write_credentials
from airflow_snowpack.runners.images.errors import BuilderUnavailable
from airflow_snowpack.runners.images.options import build_options
from airflow_snowpack.runners.images.target import Registry


class Docker:
    """The builder ``docker``.

    :param program: the command-line client.
    """

    def __init__(self, program: str = "docker") -> None:
        self._program = program

    def preflight(self, commands: Commands, scratch: Path) -> None:
        """:raises BuilderUnavailable: the client is not installed, or its daemon does not answer."""
        try:
            commands.run([self._program, "version", "--format", "{{.Server.Version}}"], scratch, is_logged=False)
        except EntryNotStarted as error:
            raise BuilderUnavailable("docker", "the command `docker` is not installed") from error
        except CommandFailed as error:
            raise BuilderUnavailable("docker", f"the Docker daemon does not answer: `docker version` {error.problem}") from error

    def build(self, job: BuildJob) -> str:
        """Build the image in the daemon, under no name; return its id."""
        environment, id_file = dict(job.source.build_args), job.scratch / "image-id"
        argv = [self._program, *self._build_command(job), *build_options(job, id_file), str(job.context)]
        job.commands.run(argv, job.scratch, environment | self._credentials(job))
        return id_file.read_text().strip()

    def publish(self, job: BuildJob, image_id: str) -> str:
        """Tag the image, and push it where there is a registry."""
        job.commands.run([self._program, "tag", image_id, job.tag], job.scratch)
        if job.target.registry is None:
            return image_id
        job.commands.run([self._program, "push", job.tag], job.scratch, self._credentials(job))
        inspect = [self._program, "image", "inspect", "--format", "{{json .RepoDigests}}", job.tag]
        digests = json.loads("".join(job.commands.run(inspect, job.scratch, is_logged=False)))
        # Docker reports a name in Docker Hub without the host.
        prefix = f"{job.target.registry.repository if job.target.registry.is_docker_hub else job.target.registry.name}@"
        found = [digest.removeprefix(prefix) for digest in digests or () if digest.startswith(prefix)]
        if not found:
            raise CommandFailed(self._program, "reported no digest after the push")
        return str(found[-1])

    def has(self, image: str, commands: Commands, scratch: Path) -> bool:
        """Return whether the daemon has an image of this tag or id."""
        try:
            commands.run([self._program, "image", "inspect", "--format", "{{.Id}}", image], scratch, is_logged=False)
        except CommandFailed:
            return False
        return True

    def _build_command(self, job: BuildJob) -> list[str]:
        try:
            job.commands.run([self._program, "buildx", "version"], job.scratch, is_logged=False)
        except CommandFailed:
            return ["build"]
        # A builder in a container keeps the image to itself without --load.
        return ["buildx", "build", "--load", "--progress=plain"]

    def _credentials(self, job: BuildJob) -> dict[str, str]:
        """Return the environment that names a configuration with the registry's credentials, and else the worker's own."""
        registry, folder = job.target.registry, job.scratch / "docker"
        if registry is None or token(registry) is None:
            return {}
        if not folder.exists():
            _write_configuration(registry, folder)
        return {"DOCKER_CONFIG": str(folder)}


def _write_configuration(registry: Registry, folder: Path) -> None:
    own = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    write_credentials(registry, folder, own / "config.json", for_docker=True)
    for name in ("contexts", "cli-plugins", "buildx"):  # they are looked for beside the configuration
        if (own / name).is_dir():
            (folder / name).symlink_to(own.absolute() / name)
