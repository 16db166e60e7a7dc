"""The source of an image: a commit of a Git repository, and what is passed to its build.

    ImageBuild("https://github.com/acme/score.git", "main", build_args={"PYTHON": "3.12"})

The invariant: every :class:`ImageBuild` is safe to log and to store. A URL with credentials is refused, and the values of build
arguments are not part of its ``repr``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from airflow_snowpack.redaction import public_address
from airflow_snowpack.runners.images.errors import InvalidImageBuild

COMMIT = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
SCHEMES = ("https", "ssh", "file")
USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
SSH_ADDRESS = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^\s:@-][^\s:@]*")
"""``git@github.com:acme/score.git``: a host and a path below the home of its user."""
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*")
ARGUMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
RESERVED_ARGUMENTS = re.compile(
    r"PATH|HOME|TMPDIR|REGISTRY_AUTH_FILE|BUILDKIT_HOST|STORAGE_(DRIVER|OPTS)|(LD|XDG|DOCKER|BUILDX|BUILDAH|CONTAINERS?)_\w*"
)
"""Build arguments reach the builder in its environment, not on its command line; these would change the builder itself."""
MAX_LENGTH = 1_000
"""The length of a remote, a revision and a path."""


@dataclass(frozen=True, slots=True)
class ImageBuild:
    """An image that is built from a Git repository, whose root is the build context.

    :param remote: the repository: an ``https://``, ``ssh://`` or ``file:///`` URL, or ``git@host:path``; without credentials.
    :param revision: a branch, a tag or a full commit hash. A branch or tag is resolved to its commit when the image is requested.
    :param dockerfile: the path of the Dockerfile in the repository.
    :param build_args: the values of the Dockerfile's ``ARG`` instructions. They stay in the image's history, as with any builder:
        pass no secrets.
    :raises InvalidImageBuild: a parameter cannot be used; the message names it and the rule.
    """

    remote: str
    revision: str
    dockerfile: str = "Dockerfile"
    build_args: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "remote", _remote(self.remote))
        _check_revision(self.revision)
        object.__setattr__(self, "dockerfile", _dockerfile(self.dockerfile))
        object.__setattr__(self, "build_args", _build_args(self.build_args))

    @property
    def is_pinned(self) -> bool:
        """Return whether the revision is a commit, which means the same at any time."""
        return COMMIT.fullmatch(self.revision) is not None

    def at(self, commit: str) -> ImageBuild:
        """Return the same build pinned to a commit. A task that waits for the image keeps this one, as branches move."""
        return replace(self, revision=commit)


def _text(name: str, value: Any, shown: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidImageBuild(name, shown, "it must be a text that is not empty")
    if len(value) > MAX_LENGTH:
        raise InvalidImageBuild(name, f"{str(shown)[:40]}…", f"it must not be longer than {MAX_LENGTH} characters")
    if not value.isprintable() or " " in value:
        raise InvalidImageBuild(name, shown, "it must not contain spaces, line breaks or control characters")
    if value.startswith("-"):
        raise InvalidImageBuild(name, shown, "it must not begin with a hyphen, which Git takes for an option")
    return value


def _shown(given: str) -> str:
    """Return a remote for messages, whatever is wrong with it."""
    return public_address(given) if "://" in given else given.rpartition("@")[2]


def _remote(given: Any) -> str:
    shown = _shown(given) if isinstance(given, str) else given
    text = _text("remote", given, shown).rstrip("/")
    if SSH_ADDRESS.fullmatch(text) and "://" not in text:
        return text
    scheme, separator, _ = text.partition("://")
    if not separator or scheme not in SCHEMES:
        raise InvalidImageBuild("remote", shown, "it must be an https://, ssh:// or file:/// URL, or git@host:path")
    _check_url(text, scheme, shown)
    return text


def _check_url(text: str, scheme: str, shown: str) -> None:
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname or "", parts.username, parts.port
    except ValueError:
        raise InvalidImageBuild("remote", shown, "its host or port is not valid") from None
    if parts.password is not None or (user is not None and scheme != "ssh"):
        problem = "it must not contain credentials; configure a credential helper of Git on the workers, or use SSH"
        raise InvalidImageBuild("remote", shown, problem)
    if parts.query or parts.fragment:
        raise InvalidImageBuild("remote", shown, "it must have neither a query nor a fragment")
    if scheme == "file":
        if parts.netloc or not parts.path.strip("/"):
            raise InvalidImageBuild("remote", shown, "a file URL needs an absolute path, such as file:///srv/git/score.git")
    elif not HOST.fullmatch(host) or (user is not None and not USER.fullmatch(user)):
        raise InvalidImageBuild("remote", shown, "its host or user is not valid")
    elif not parts.path.strip("/"):
        raise InvalidImageBuild("remote", shown, "it names no repository")


def _check_revision(given: Any) -> None:
    """Allow what ``git check-ref-format`` allows as a branch, a tag or a full reference, and commit hashes."""
    text = _text("revision", given, given)
    parts = text.split("/")
    wrong_part = any(not part or part.startswith(".") or part.endswith(".lock") for part in parts)
    if wrong_part or text.endswith(".") or text == "@" or re.search(r"\.\.|@\{|[~^:?*\[\\]", text):
        raise InvalidImageBuild("revision", text, "it must be the name of a branch or a tag, or a full commit hash")


def _dockerfile(given: Any) -> str:
    if not isinstance(given, str) or not given or len(given) > MAX_LENGTH or not given.isprintable() or given.startswith("-"):
        raise InvalidImageBuild("dockerfile", given, "it must be a path in the repository, such as docker/Dockerfile")
    path = PurePosixPath(given)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidImageBuild("dockerfile", given, "it must be relative to the root of the repository, and stay below it")
    return str(path)


def _build_args(given: Any) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise InvalidImageBuild("build_args", type(given).__name__, "it must be a dictionary of texts")
    for name, value in given.items():
        if not isinstance(name, str) or not ARGUMENT_NAME.fullmatch(name):
            raise InvalidImageBuild("build_args", name, "a name must consist of letters, digits and underscores")
        if RESERVED_ARGUMENTS.fullmatch(name):
            raise InvalidImageBuild("build_args", name, "the builder itself reads a variable of this name; use another one")
        if not isinstance(value, str) or not _is_passable(value):
            raise InvalidImageBuild("build_args", name, "its value must be a text without NUL characters")
    return dict(given)


def _is_passable(value: str) -> bool:
    """Return whether a text can be the value of an environment variable."""
    return "\x00" not in value and value == value.encode("utf-8", "replace").decode("utf-8")
