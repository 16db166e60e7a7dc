"""Git repositories on this disk, and a builder that records its requests.

repository = Repository(tmp_path / "score.git")
first = repository.commit({"Dockerfile": "FROM scratch\\n"}, "main")
images = ImageBuilds(store, ImageTarget(registry=REGISTRY), builder=NotedBuilder())
images.ensure(ImageBuild(repository.url, "main"), build=True)
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from airflow_snowpack.runners.images.builders import BuildJob
from airflow_snowpack.runners.images.commands import Commands
from airflow_snowpack.runners.images.target import Registry

REGISTRY = Registry("registry.example.com", "team/images", "ci", "hunter2-of-the-registry")
DOCKERFILE = {"Dockerfile": "FROM scratch\n", "score.py": "print(1)\n"}
DIGEST = f"sha256:{'d' * 64}"
# Nothing of the developer's own configuration, such as hooks, a signing key or the name of the first branch.
ALONE = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}


class Repository:
    """A bare repository, whose commits have the same hash in each run."""

    def __init__(self, path: Path, object_format: str = "sha1") -> None:
        self.path = path
        self.url = f"file://{path}"
        self._commits = 0
        self.git("init", "--quiet", "--bare", "--initial-branch=main", f"--object-format={object_format}", str(path), here=False)

    def git(self, *arguments: str, given: str = "", here: bool = True) -> str:
        command = ["git", *([f"--git-dir={self.path}"] if here else []), *arguments]
        return subprocess.run(
            command, check=True, capture_output=True, text=True, input=given, env={**os.environ, **ALONE}
        ).stdout.strip()

    def commit(self, files: Mapping[str, str], branch: str = "main") -> str:
        """Add a commit of these files alone to a branch; return its hash."""
        self._commits += 1
        lines = [f"commit refs/heads/{branch}", f"committer T <t@example.com> {1_700_000_000 + self._commits} +0000"]
        lines += [f"data {len(branch)}", branch]
        if self.git("for-each-ref", f"refs/heads/{branch}"):
            lines += [f"from refs/heads/{branch}^0"]
        lines += ["deleteall"]
        for name, content in files.items():
            mode, content = ("120000", content[2:]) if content.startswith("->") else ("100644", content)
            lines += [f"M {mode} inline {name}", f"data {len(content.encode())}", content]
        self.git("fast-import", "--quiet", given="\n".join(lines) + "\n")
        return self.git("rev-parse", f"refs/heads/{branch}")


class NotedBuilder:
    """Stores nothing; ``jobs`` are the builds that it was asked for, and ``work`` what happens in each.

    ``refusals`` are what the next pushes raise.
    """

    def __init__(self, work: Callable[[BuildJob], object] = lambda _: None) -> None:
        self.work = work
        self.jobs: list[BuildJob] = []
        self.files: list[dict[str, str]] = []
        self.published: list[str] = []
        self.refusals: list[Exception] = []
        self.tags: set[str] = set()

    def preflight(self, commands: Commands, scratch: Path) -> None: ...

    def build(self, job: BuildJob) -> str:
        self.jobs.append(job)
        found = sorted(path for path in job.context.rglob("*") if path.is_file())
        self.files.append({str(path.relative_to(job.context)): path.read_text() for path in found})
        self.work(job)
        image_id = f"sha256:{len(self.jobs):064}"
        self.tags.add(image_id)
        return image_id

    def publish(self, job: BuildJob, image_id: str) -> str:
        if self.refusals:
            raise self.refusals.pop(0)
        self.published.append(image_id)
        self.tags.add(job.tag)
        return image_id if job.target.registry is None else DIGEST

    def has(self, image: str, commands: Commands, scratch: Path) -> bool:
        return image in self.tags
