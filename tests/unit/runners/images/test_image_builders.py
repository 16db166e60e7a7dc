"""What the commands of Docker, Buildah and Podman are given: argv, environment and credentials, by stand-ins that record them."""

from __future__ import annotations

import base64
import json
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from airflow_snowpack.runners.images import BuilderUnavailable, ImageBuild, ImageTarget, Registry
from airflow_snowpack.runners.images.builders import Builder, BuildJob, Docker
from airflow_snowpack.runners.images.commands import CommandFailed, Commands
from airflow_snowpack.runners.images.target import image_key

IMAGE_ID = f"sha256:{'1' * 64}"
DIGEST = f"sha256:{'2' * 64}"
REGISTRY = Registry("registry.example.com:5000", "team/images", "ci", "hunter2")
TOKEN = base64.b64encode(b"ci:hunter2").decode()
SOURCE = ImageBuild("https://github.com/acme/score.git", "a" * 40, build_args={"TOKEN": "s3cret value; $(x)\n", "PYTHON": "3.12"})
STAND_IN = f"""#!{sys.executable} -IS
import json, os, sys, pathlib
here = pathlib.Path(__file__).parent
configuration = pathlib.Path(os.environ.get("DOCKER_CONFIG", here)) / "config.json"
authfile = [each.partition("=")[2] for each in sys.argv if each.startswith("--authfile=")]
configuration = pathlib.Path(authfile[0]) if authfile else configuration
noted = {{
    "argv": sys.argv[1:],
    "environment": {{name: os.environ[name] for name in ("TOKEN", "PYTHON") if name in os.environ}},
    "configuration": json.loads(configuration.read_text()) if configuration.exists() else None,
    "mode": configuration.stat().st_mode if configuration.exists() else None,
}}
with open(here / "noted", "a") as file:
    file.write(json.dumps(noted) + "\\n")
answers = json.loads((here / "answers").read_text())
for option in sys.argv:
    name, _, value = option.partition("=")
    if name == "--iidfile":
        pathlib.Path(value).write_text({IMAGE_ID!r})
    if name == "--digestfile":
        pathlib.Path(value).write_text({DIGEST!r})
code, text = next((answer for words, answer in answers.items() if " ".join(sys.argv[1:]).startswith(words)), (0, ""))
print(text, file=sys.stderr if code else sys.stdout)
sys.exit(code)
"""


@pytest.fixture
def answers() -> dict[str, tuple[int, str]]:
    """By the beginning of the arguments: the exit code, and what is printed."""
    return {"image inspect": (0, json.dumps([f"other.example.com/x@{IMAGE_ID}", f"{REGISTRY.name}@{DIGEST}"]))}


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, tuple[int, str]]) -> Any:
    """Put stand-ins on the path; gives a function that returns what they were given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("docker", "buildah", "podman"):
        (folder / name).write_text(STAND_IN)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("DOCKER_CONFIG", raising=False)
    (folder / "answers").write_text(json.dumps(answers))

    def read() -> list[dict[str, Any]]:
        (folder / "answers").write_text(json.dumps(answers))
        lines = (folder / "noted").read_text().splitlines() if (folder / "noted").exists() else []
        (folder / "noted").write_text("")
        return [json.loads(line) for line in lines]

    return read


def job_for(scratch: Path, registry: Registry | None = REGISTRY, builder: str = "docker") -> BuildJob:
    target = ImageTarget(builder, registry, host="w1", platform="linux/amd64")
    context = scratch / "context"
    context.mkdir()
    return BuildJob(SOURCE, target, image_key(SOURCE, target), context, context / "Dockerfile", scratch, Commands())


def options(job: BuildJob) -> list[str]:
    return [
        f"--file={job.dockerfile}",
        "--platform=linux/amd64",
        f"--iidfile={job.scratch / 'image-id'}",
        "--label=org.opencontainers.image.source=https://github.com/acme/score.git",
        f"--label=org.opencontainers.image.revision={'a' * 40}",
        f"--label=airflow-snowpack.key={job.key}",
        "--build-arg=PYTHON",
        "--build-arg=TOKEN",
    ]


def test_docker_builds_with_buildkit_and_pushes_by_tag(noted: Any, scratch: Path) -> None:
    job, docker = job_for(scratch), Docker()
    assert docker.build(job) == IMAGE_ID
    assert docker.publish(job, IMAGE_ID) == DIGEST
    calls = noted()
    assert [call["argv"] for call in calls] == [
        ["buildx", "version"],
        ["buildx", "build", "--load", "--progress=plain", *options(job), str(job.context)],
        ["tag", IMAGE_ID, job.tag],
        ["push", job.tag],
        ["image", "inspect", "--format", "{{json .RepoDigests}}", job.tag],
    ]
    assert job.tag == f"registry.example.com:5000/team/images:{job.key}"
    assert [call["environment"] for call in calls] == [{}, dict(SOURCE.build_args), {}, {}, {}]
    auths = [None if call["configuration"] is None else call["configuration"]["auths"] for call in calls]
    both = {"registry.example.com:5000": {"auth": TOKEN}}
    assert auths == [None, both, None, both, None]  # the Dockerfile may begin with an image of the registry


def test_nothing_secret_is_on_a_command_line(noted: Any, scratch: Path) -> None:
    job, docker = job_for(scratch), Docker()
    docker.publish(job, docker.build(job))
    calls = noted()
    text = json.dumps([call["argv"] for call in calls])
    assert not any(secret in text for secret in ("s3cret", "3.12", "hunter2", TOKEN))
    (mode,) = {stat.S_IMODE(call["mode"]) for call in calls if call["mode"] is not None}
    assert mode == 0o600


def test_the_worker_s_own_docker_configuration_stays_in_force(
    noted: Any, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "home" / ".docker"
    (own / "contexts").mkdir(parents=True)
    mine = {"auths": {"private.example.com": {"auth": "eA=="}}, "credsStore": "desktop", "currentContext": "remote"}
    (own / "config.json").write_text(json.dumps(mine))
    job = job_for(scratch)
    Docker().publish(job, IMAGE_ID)
    pushed = next(call for call in noted() if call["argv"][0] == "push")["configuration"]
    assert pushed == {
        "auths": {"private.example.com": {"auth": "eA=="}, "registry.example.com:5000": {"auth": TOKEN}},
        "credHelpers": {"registry.example.com:5000": ""},  # not the worker's store, for this registry alone
        "credsStore": "desktop",
        "currentContext": "remote",
    }
    assert (scratch / "credentials" / "contexts").resolve() == own / "contexts"


def test_docker_finds_credentials_and_digests_of_docker_hub(
    noted: Any, scratch: Path, answers: dict[str, tuple[int, str]]
) -> None:
    answers["image inspect"] = (0, json.dumps([f"acme/score@{DIGEST}"]))
    noted()
    assert Docker().publish(job_for(scratch, registry=Registry("docker.io", "acme/score", "ci", "hunter2")), IMAGE_ID) == DIGEST
    pushed = next(call for call in noted() if call["argv"][0] == "push")["configuration"]
    names = ("docker.io", "https://index.docker.io/v1/")
    assert pushed == {"auths": {name: {"auth": TOKEN} for name in names}, "credHelpers": dict.fromkeys(names, "")}


def test_docker_without_buildx_builds_as_before(noted: Any, scratch: Path, answers: dict[str, tuple[int, str]]) -> None:
    answers["buildx"] = (1, "docker: unknown command: docker buildx")
    noted()
    job = job_for(scratch, registry=None)
    Docker().build(job)
    assert noted()[1]["argv"] == ["build", *options(job), str(job.context)]


def test_without_a_registry_an_image_is_tagged_and_not_pushed(noted: Any, scratch: Path) -> None:
    job = job_for(scratch, registry=None)
    assert Docker().publish(job, IMAGE_ID) == IMAGE_ID
    assert [call["argv"] for call in noted()] == [["tag", IMAGE_ID, f"snowpack:{job.key}"]]


def test_a_push_without_a_digest_is_a_failure(noted: Any, scratch: Path, answers: dict[str, tuple[int, str]]) -> None:
    answers["image inspect"] = (0, "[]")
    noted()
    with pytest.raises(CommandFailed, match="reported no digest after the push"):
        Docker().publish(job_for(scratch), IMAGE_ID)


def test_buildah_and_podman_get_names_of_arguments_and_a_file_of_credentials(noted: Any, scratch: Path) -> None:
    job, podman = job_for(scratch, builder="podman"), Builder("podman")
    assert podman.build(job) == IMAGE_ID
    assert podman.publish(job, IMAGE_ID) == DIGEST
    built, pushed = noted()
    authfile = f"--authfile={scratch / 'credentials' / 'config.json'}"
    assert built["argv"] == ["build", "--no-cache", *options(job), authfile, str(job.context)]
    assert built["environment"] == dict(SOURCE.build_args)
    digestfile = f"--digestfile={scratch / 'digest'}"
    assert pushed["argv"] == ["push", digestfile, authfile, IMAGE_ID, f"docker://{job.tag}"]
    assert pushed["configuration"] == {"auths": {"registry.example.com:5000": {"auth": TOKEN}}, "credHelpers": {}}
    assert stat.S_IMODE(pushed["mode"]) == 0o600


def test_buildah_uses_its_cache_unless_a_build_argument_could_be_that_of_another_build(noted: Any, scratch: Path) -> None:
    job = job_for(scratch, builder="buildah")
    Builder("buildah").build(replace(job, source=replace(job.source, build_args={})))
    Builder("buildah").build(job)
    assert [("--layers" in each["argv"], "--no-cache" in each["argv"]) for each in noted()] == [(True, False), (False, True)]


@pytest.mark.parametrize("builder", [Docker(), Builder("buildah"), Builder("podman")])
def test_a_builder_that_is_not_installed_is_named_with_the_setting_and_the_alternative(
    scratch: Path, monkeypatch: pytest.MonkeyPatch, builder: Builder
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(BuilderUnavailable, match=r"is not installed.*\[snowpack\] image_builder.*prebuilt image \(image=…\)"):
        builder.preflight(Commands(), scratch)


def test_a_daemon_that_does_not_answer_is_named(noted: Any, scratch: Path, answers: dict[str, tuple[int, str]]) -> None:
    answers["version"] = (1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock.")
    noted()
    with pytest.raises(BuilderUnavailable, match=r"daemon does not answer: .* exit code 1: Cannot connect to the Docker daemon"):
        Docker().preflight(Commands(), scratch)
    assert noted()[0]["argv"] == ["version", "--format", "{{.Server.Version}}"]
