"""The key of an image: SHA-256 of everything that decides what the image contains and where it is.

    image_key(source.at(commit), target)                # 64 hexadecimal digits; target.tag(key) contains all of them

The invariant: two builds have the same key if and only if they are interchangeable. Only a commit has a key, not a branch.
"""

from __future__ import annotations

import hashlib
import json

from airflow_snowpack.runners.images.source import ImageBuild
from airflow_snowpack.runners.images.target import ImageTarget

VERSION = 1
"""The version of the description. Increase it when a change to how images are built changes their content."""


def image_key(source: ImageBuild, target: ImageTarget) -> str:
    """Return the key of a build that is pinned to a commit."""
    if not source.is_pinned:
        raise ValueError(f"The revision {source.revision!r} is not a commit, which the key of an image needs. Resolve it first.")
    description = {
        "version": VERSION,
        "remote": source.remote,
        "commit": source.revision,
        "dockerfile": source.dockerfile,
        "build_args": dict(source.build_args),
        "platform": target.platform,
        "place": target.place,
    }
    canonical = json.dumps(description, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
