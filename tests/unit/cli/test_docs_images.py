"""docs/images.md: its example is a task, its commands run in order and end as it says, and its tables are those of the code."""

from __future__ import annotations

import configparser
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from command_line import Run
from image_world import NotedBuilder, Repository
from made_images import make_images

from airflow_snowpack.jobs import Jobs
from airflow_snowpack.provider_info import CONFIG
from airflow_snowpack.runners.images import ImageBuild, ImageState, errors, registry
from airflow_snowpack.runners.images.builders import BuildJob
from airflow_snowpack.runners.images.explanation import explain
from airflow_snowpack.runners.images.target import BUILDERS

pytestmark = pytest.mark.one_database
PAGE = (Path(__file__).parents[3] / "docs" / "images.md").read_text()
KEY = r"(?P<keeps>key=\$\()?"
JQ = r"(?: \| jq -r '\.images\[0\]\.key'\))?"
COMMAND = re.compile(rf"{KEY}airflow snowpack (?P<command>[^|#]*?){JQ}(?P<comment> +#.*)?")
REMOTE = "https://github.com/acme/score.git"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def first_column(heading: str) -> list[str]:
    """What the first column of the table below a heading has in backquotes."""
    table = re.search(rf"^\| {heading} \|[^\n]*\n\|-(.*?)\n\n", PAGE, re.MULTILINE | re.DOTALL)
    assert table is not None
    return re.findall(r"^\| `(\w+)`", table[1], re.MULTILINE)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NotedBuilder:
    """The repository of the page, from a folder, and a builder that needs no program."""
    repository = Repository(tmp_path / "score.git")
    repository.commit({"docker/Dockerfile": "ARG PYTHON\nFROM python:$PYTHON\n"})
    for name, value in {"COUNT": "1", "KEY_0": f"url.{repository.url}.insteadOf", "VALUE_0": REMOTE}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)

    def work(job: BuildJob) -> None:
        job.commands.run(["echo", "STEP 1/2: FROM python"], job.scratch)

    builder = NotedBuilder(work)
    monkeypatch.setattr(registry, "builder_for", lambda target: builder)
    return builder


def test_every_command_of_the_page_ends_as_it_says(snowpack: Run, built: NotedBuilder) -> None:
    (block,) = blocks("bash")
    key, said = "", {}
    for line in block.splitlines():
        match = COMMAND.fullmatch(line)
        assert match is not None, line
        arguments = shlex.split(match["command"].replace("$key", key))
        answer = said[" ".join(arguments[:2] + arguments[3:])] = snowpack(*arguments)
        expected = re.search(r"exit code (\d+)", match["comment"] or "")
        assert answer.code == (int(expected[1]) if expected else 0), f"{line}\n{answer.err}"
        if match["keeps"]:
            key = answer.json["images"][0]["key"]
    (job,) = built.jobs
    assert (job.source.remote, job.source.dockerfile, dict(job.source.build_args)) == (
        REMOTE, "docker/Dockerfile", {"PYTHON": "3.12"},
    )  # fmt: skip
    assert said["images show --log"].out == "STEP 1/2: FROM python\n"
    build = next(answer for command, answer in said.items() if command.startswith("images build"))
    assert build.out == f"snowpack:{key}\n"
    assert "STEP 1/2: FROM python" in build.err


def test_the_task_of_the_page_builds_its_image() -> None:
    (code,) = blocks("python")
    names: dict[str, object] = {}
    exec(compile(code.replace("RunEntryOperator(\n", "task = RunEntryOperator(\n"), "docs/images.md", "exec"), names)
    task = names["task"]
    source = task.build  # type: ignore[attr-defined]  # an operator's
    assert source == ImageBuild(REMOTE, "main", "docker/Dockerfile", {"PYTHON": "3.12"})
    assert set(first_column("parameter")) == set(ImageBuild.__dataclass_fields__)


def test_the_explanation_of_the_page_is_the_one_of_the_code(jobs: Jobs) -> None:
    made = make_images(jobs.store)
    image = replace(made.building, holder="flights/r1/score", started_at=datetime(2026, 11, 21, 21, 57, tzinfo=UTC))
    assert f"```text\n{explain(image, made.builds.policy, jobs.store.clock())}\n```" in PAGE


def test_the_tables_of_the_page_have_what_the_code_has() -> None:
    assert first_column("state") == [state.value for state in ImageState]
    assert first_column("`image_builder`") == list(BUILDERS)
    assert all(hasattr(errors, name) for name in first_column("error"))
    for settings in blocks("ini"):
        parser = configparser.ConfigParser()
        parser.read_string(settings)
        assert set(parser["snowpack"]) <= set(CONFIG["snowpack"]["options"])
        assert parser["snowpack"]["image_builder"] in BUILDERS
