"""The Git operations of image builds: resolve a revision to a commit, and check out its files.

    commit = resolve(commands, source, scratch)
    context = check_out(commands, source.at(commit), scratch)          # a folder with the files of the commit, without .git

Git never prompts. It uses only the protocols ``https``, ``ssh`` and ``file``, even if a server redirects, and takes its
credentials from the worker: a credential helper, ``GIT_ASKPASS``, or SSH keys.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta
from pathlib import Path

from airflow_snowpack.runners.errors import EntryNotStarted
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.errors import BuilderUnavailable, RepositoryUnavailable, RevisionNotFound
from airflow_snowpack.runners.images.source import ImageBuild

RESOLVE_TIMEOUT = timedelta(seconds=60)
ANSWER = re.compile(r"([0-9a-f]{40}|[0-9a-f]{64})\t(.+)")
SHA256_LENGTH = 64
PEELED = "^{}"
"""Marks the commit that an annotated tag points to."""
OPTIONS = (
    # A server that stops sending is abandoned, however long the rest may take.
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
    *("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false", "-c", "core.autocrlf=false"),
)
SSH = "ssh -o BatchMode=yes -o ConnectTimeout=30 -o ServerAliveInterval=15 -o ServerAliveCountMax=4"


def preflight(commands: Commands, source: ImageBuild, scratch: Path) -> None:
    """:raises BuilderUnavailable: Git is not installed on this worker."""
    _git(commands, source, scratch, "version")


def resolve(commands: Commands, source: ImageBuild, scratch: Path) -> str:
    """Return the commit that a branch or tag points to now; return a commit as it is.

    :param scratch: an existing folder, in which nothing is written.
    :raises RevisionNotFound: the repository has neither a branch nor a tag with this name, or both.
    :raises RepositoryUnavailable: it does not answer, or refuses.
    """
    if source.is_pinned:
        return source.revision
    name = source.revision
    wanted = [name] if name == "HEAD" or name.startswith("refs/") else [f"refs/heads/{name}", f"refs/tags/{name}"]
    patterns = [*wanted, *(f"{ref}{PEELED}" for ref in wanted if not ref.startswith("refs/heads/"))]
    lines = _git(commands, source, scratch, "ls-remote", "--", source.remote, *patterns, timeout=RESOLVE_TIMEOUT)
    found = {answer[2]: answer[1] for line in lines if (answer := ANSWER.fullmatch(line)) is not None}
    # A pattern also matches the end of longer names.
    commits = {ref: found.get(ref + PEELED, found[ref]) for ref in wanted if ref in found}
    if not commits:
        problem = "it has neither a branch nor a tag of this name" if len(wanted) > 1 else "it has no such reference"
        hint = "; a commit needs its full hash" if re.fullmatch(r"[0-9a-f]{4,63}", name) else ""
        raise RevisionNotFound(source.remote, name, problem + hint)
    if len(set(commits.values())) > 1:
        raise RevisionNotFound(source.remote, name, f"it is a branch and a tag; pass {' or '.join(commits)}")
    return next(iter(commits.values()))


def check_out(commands: Commands, source: ImageBuild, scratch: Path) -> Path:
    """Write the files of a commit into a new folder.

    :param source: pinned to a commit.
    :param scratch: an empty folder; the files are in its folder ``context``.
    :raises RevisionNotFound: the repository has no such commit.
    :raises RepositoryUnavailable: it does not answer, or refuses.
    """
    repository, context, commit = scratch / "repository.git", scratch / "context", source.revision
    context.mkdir()
    object_format = "sha256" if len(commit) == SHA256_LENGTH else "sha1"
    _git(commands, source, scratch, "init", "--quiet", "--bare", f"--object-format={object_format}", str(repository))
    here = (f"--git-dir={repository}", f"--work-tree={context}")
    _fetch(commands, source, scratch, here)
    try:
        _git(commands, source, scratch, *here, "checkout", "--quiet", "--force", "--detach", commit)
    except RepositoryUnavailable as error:
        raise RevisionNotFound(source.remote, commit, "it has no such commit") from error
    return context


def _fetch(commands: Commands, source: ImageBuild, scratch: Path, here: tuple[str, ...]) -> None:
    """Fetch only the commit; from a server that allows only branches and tags, fetch those with their history."""
    try:
        _git(commands, source, scratch, *here, "fetch", "--quiet", "--depth=1", "--no-tags", "--", source.remote, source.revision)
    except RepositoryUnavailable:
        every = ("+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
        _git(commands, source, scratch, *here, "fetch", "--quiet", "--no-tags", "--", source.remote, *every)


def _git(commands: Commands, source: ImageBuild, folder: Path, *arguments: str, timeout: timedelta | None = None) -> list[str]:
    environment = {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": "https:ssh:file", "LC_ALL": "C"}
    if "GIT_SSH_COMMAND" not in os.environ and "GIT_SSH" not in os.environ:
        environment["GIT_SSH_COMMAND"] = SSH
    try:
        return commands.run(["git", *OPTIONS, *arguments], folder, environment, timeout=timeout, is_logged=False)
    except CommandFailed as error:
        # The last lines are advice.
        problem = next((line for line in error.errors if line.startswith("fatal: ")), f"git {error.problem}")
        raise RepositoryUnavailable(source.remote, problem.rstrip(".")) from error
    except EntryNotStarted as error:
        raise BuilderUnavailable("git", str(error)) from error
