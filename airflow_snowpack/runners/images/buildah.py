"""Builds images without a daemon, with Buildah or Podman, which share their storage and most options."""

from __future__ import annotations

import os
from pathlib import Path

from airflow_snowpack.runners.errors import EntryNotStarted
from airflow_snowpack.runners.images.builder import BuildJob
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.credentials import token, write_credentials
from airflow_snowpack.runners.images.errors import BuilderUnavailable
from airflow_snowpack.runners.images.options import build_options


class Buildah:
    """The builders ``buildah`` and ``podman``.

    :param program: the command.
    """

    def __init__(self, program: str = "buildah") -> None:
        self._program = program

    def preflight(self, commands: Commands, scratch: Path) -> None:
        """:raises BuilderUnavailable: the program is not installed or does not work."""
        name = Path(self._program).name
        try:
            commands.run([self._program, "version"], scratch, is_logged=False)
        except EntryNotStarted as error:
            raise BuilderUnavailable(name, f"the command `{name}` is not installed") from error
        except CommandFailed as error:
            raise BuilderUnavailable(name, f"`{name} version` {error.problem}") from error

    def build(self, job: BuildJob) -> str:
        """Build the image under no name; return its id."""
        id_file = job.scratch / "image-id"
        # With its cache, Buildah 1.28 gives an image the labels of another value of a build argument.
        cache = "--no-cache" if job.source.build_args else "--layers"
        options = [*build_options(job, id_file), cache, *self._credentials(job)]
        job.commands.run([self._program, "build", *options, str(job.context)], job.scratch, job.source.build_args)
        return id_file.read_text().strip()

    def publish(self, job: BuildJob, image_id: str) -> str:
        """Tag the image, and push it where there is a registry."""
        registry, digest_file = job.target.registry, job.scratch / "digest"
        if registry is None:
            job.commands.run([self._program, "tag", image_id, job.tag], job.scratch)
            return image_id
        options = [f"--digestfile={digest_file}", *self._credentials(job)]
        options += ["--tls-verify=false"] if registry.is_plain_http else []
        job.commands.run([self._program, "push", *options, image_id, f"docker://{job.tag}"], job.scratch)
        return digest_file.read_text().strip()

    def has(self, image: str, commands: Commands, scratch: Path) -> bool:
        """Return whether this host has an image of this tag or id."""
        try:
            return bool(commands.run([self._program, "images", "--quiet", image], scratch, is_logged=False))
        except CommandFailed:  # so Buildah reports an unknown name
            return False

    def _credentials(self, job: BuildJob) -> list[str]:
        registry, folder = job.target.registry, job.scratch / "credentials"
        if registry is None or token(registry) is None:
            return []
        file = folder / "config.json"
        if not file.exists():
            write_credentials(registry, folder, _own_credentials())
        return [f"--authfile={file}"]


def _own_credentials() -> Path:
    """Return the worker's own file, from where the builder would read it."""
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        return Path(named)
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}") / "containers" / "auth.json"
    return runtime if runtime.exists() else Path.home() / ".docker" / "config.json"
