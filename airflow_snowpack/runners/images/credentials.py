"""The file with a registry's credentials that a builder reads: they appear on no command line.

    file = write_credentials(registry, scratch / "docker", own=Path.home() / ".docker/config.json")

It also contains what the worker's own file has: a Dockerfile may begin with an image of another private registry.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

from airflow_snowpack.runners.images.target import Registry

FILE = "config.json"
DOCKER_HUB = "https://index.docker.io/v1/"
"""Docker's name for ``docker.io`` in its credentials."""


def token(registry: Registry) -> str | None:
    """Return user and password as the file has them; ``None`` without a login."""
    if not registry.login and not registry.password:
        return None
    return base64.b64encode(f"{registry.login or ''}:{registry.password or ''}".encode()).decode()


def auths(registry: Registry) -> dict[str, Any]:
    """Return the entries of the file for a registry."""
    return {name: {"auth": token(registry)} for name in _names(registry)}


def write_credentials(registry: Registry, folder: Path, own: Path, *, for_docker: bool = False) -> Path:
    """Write a file that only this user can read; return its path.

    :param own: the worker's own file, if it exists.
    :param for_docker: Docker queries its ``credsStore`` for every registry for which ``credHelpers`` has no entry.
    """
    content = _own(own)
    helpers = {host: helper for host, helper in (content.get("credHelpers") or {}).items() if host not in _names(registry)}
    if for_docker:
        helpers |= dict.fromkeys(_names(registry), "")
    content["auths"] = {**(content.get("auths") or {}), **auths(registry)}
    content["credHelpers"] = helpers
    folder.mkdir(mode=0o700)
    file = folder / FILE
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        json.dump(content, stream)
    return file


def _names(registry: Registry) -> tuple[str, ...]:
    return (registry.host, DOCKER_HUB) if registry.is_docker_hub else (registry.host,)


def _own(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
