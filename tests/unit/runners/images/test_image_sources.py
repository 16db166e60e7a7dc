"""What can be built, and what cannot; which descriptions are one image; and that no secret is part of either."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from airflow_snowpack.runners.images import ImageBuild, ImageTarget, InvalidImageBuild, InvalidImageTarget, Registry
from airflow_snowpack.runners.images.target import image_key, this_platform

COMMIT = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
REMOTE = "https://github.com/acme/score.git"
SOURCE = ImageBuild(REMOTE, COMMIT, "docker/Dockerfile", {"PYTHON": "3.12"})
TARGET = ImageTarget("docker", Registry("registry.example.com", "team/images"), host="w1", platform="linux/amd64")


@pytest.mark.parametrize(
    "remote",
    [
        "https://github.com/acme/score.git",
        "https://git.example.com:8443/a/b/c/",
        "https://git.example.com/~user/score@2.git",
        "ssh://git@github.com/acme/score.git",
        "ssh://git@git.example.com:2222/acme/score.git",
        "ssh://[fe80::1]/score.git",
        "git@github.com:acme/score.git",
        "github:acme/score.git",
        "git@github.com:/srv/score.git",
        "file:///srv/git/score.git",
        "file:///srv/a@b/score.git",
    ],
)
def test_repositories_by_https_ssh_and_file(remote: str) -> None:
    assert ImageBuild(remote, "main").remote == remote.rstrip("/")


@pytest.mark.parametrize(
    "remote",
    [
        "",
        None,
        "-oProxyCommand=touch /tmp/x",
        "--upload-pack=touch /tmp/x",
        "ext::sh -c touch% /tmp/x",
        "ext::touch",
        "fd::17/foo",
        "http://github.com/acme/score.git",
        "git://github.com/acme/score.git",
        "ftp://example.com/score.git",
        "/srv/git/score.git",
        "score.git",
        "ssh://-oProxyCommand=touch/score.git",
        "ssh://git@-oProxyCommand=touch/score.git",
        "ssh://-l@host/score.git",
        "-host:score.git",
        "git@host:-score.git",
        "https:///score.git",
        "https://github.com",
        "https://github.com:port/score.git",
        "https://github.com/score.git?x=1",
        "https://github.com/score.git#main",
        "https://github.com/sc ore.git",
        "https://github.com/score.git\n--upload-pack=x",
        "https://github.com/score.git\x00",
        "file://host/score.git",
        "file:///",
        "https://github.com/" + "x" * 2000,
    ],
)
def test_a_remote_that_git_would_not_read_as_a_repository_is_refused(remote: Any) -> None:
    with pytest.raises(InvalidImageBuild, match=r"^remote = ") as refused:
        ImageBuild(remote, "main")
    assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    "remote",
    [
        "https://vera:hunter2@github.com/acme/score.git",
        "https://hunter2@github.com/acme/score.git",
        "https://vera:hun/ter2@github.com/acme/score.git",
        "https://vera:hunter2@github.com/acme/sc ore.git",
        "ssh://git:hunter2@github.com/acme/score.git",
        "http://vera:hunter2@github.com/acme/score.git",
        "vera:hunter2@github.com:acme/score.git",
        "vera:hunter2@github.com/acme/score.git",
        "https://github.com/acme/score.git?token=hunter2",
    ],
)
def test_credentials_in_a_remote_are_refused_and_not_repeated(remote: str) -> None:
    with pytest.raises(InvalidImageBuild) as refused:
        ImageBuild(remote, "main")
    assert "hunter2" not in str(refused.value)
    assert "ter2" not in str(refused.value)


@pytest.mark.parametrize("revision", ["main", "feature/é-1", "v1.2.3", "refs/heads/main", "HEAD", COMMIT, "a" * 64])
def test_revisions_are_branches_tags_and_commits(revision: str) -> None:
    source = ImageBuild(REMOTE, revision)
    assert source.is_pinned == (len(revision) in (40, 64))


@pytest.mark.parametrize(
    "revision",
    [
        *("", None, "-main", "--upload-pack=x", "a b", "a\nb", "a\x00", "main~1", "main^", "a..b", "a:b", "x@{1}", "@"),
        *("a*", "a/", "/a", "a//b", "a.lock", ".a", "a/.b", "a.", "a[b", "a\\b", "a?", "x" * 2000),
    ],
)
def test_a_revision_that_is_no_name_is_refused(revision: Any) -> None:
    with pytest.raises(InvalidImageBuild, match=r"^revision = "):
        ImageBuild(REMOTE, revision)


@pytest.mark.parametrize("dockerfile", ["", None, "/etc/passwd", "../Dockerfile", "a/../../b", "-f", "a\nb", "."])
def test_a_dockerfile_outside_of_the_repository_is_refused(dockerfile: Any) -> None:
    with pytest.raises(InvalidImageBuild, match=r"^dockerfile = "):
        ImageBuild(REMOTE, "main", dockerfile)


@pytest.mark.parametrize(
    ("build_args", "problem"),
    [
        (["A=1"], "a dictionary"),
        ({"A-B": "1"}, "letters, digits and underscores"),
        ({"": "1"}, "letters, digits and underscores"),
        ({"A=B": "1"}, "letters, digits and underscores"),
        ({1: "1"}, "letters, digits and underscores"),
        ({"A": 1}, "must be a text"),
        ({"A": "secret\x00"}, "must be a text"),
        ({"A": "\ud800"}, "must be a text"),
        ({"PATH": "/tmp"}, "the builder itself reads"),
        ({"LD_PRELOAD": "x.so"}, "the builder itself reads"),
        ({"DOCKER_HOST": "tcp://x"}, "the builder itself reads"),
        ({"STORAGE_DRIVER": "vfs"}, "the builder itself reads"),
    ],
)
def test_build_arguments_that_cannot_be_passed_are_refused_without_their_values(build_args: Any, problem: str) -> None:
    with pytest.raises(InvalidImageBuild, match=rf"^build_args = .*{problem}") as refused:
        ImageBuild(REMOTE, "main", build_args=build_args)
    assert "secret" not in str(refused.value)


def test_usual_names_of_build_arguments_are_allowed() -> None:
    names = ("GIT_COMMIT", "HTTP_PROXY", "PYTHON_VERSION", "REGISTRY_MIRROR", "STORAGE_URL", "path", "LDFLAGS", "A1", "_x")
    assert list(ImageBuild(REMOTE, "main", build_args=dict.fromkeys(names, "")).build_args) == list(names)


def test_a_source_is_a_value_that_hides_its_arguments() -> None:
    given = {"TOKEN": "hunter2"}
    source = ImageBuild(REMOTE, "main", "./docker//Dockerfile", given)
    given["TOKEN"] = "other"
    assert source == ImageBuild(REMOTE, "main", "docker/Dockerfile", {"TOKEN": "hunter2"})
    assert pickle.loads(pickle.dumps(source)) == source
    assert source.at(COMMIT).build_args == {"TOKEN": "hunter2"}
    assert "hunter2" not in repr(source)


def test_a_key_is_made_of_everything_that_decides_the_content() -> None:
    other_targets = [
        ImageTarget("docker", Registry("registry.example.com", "team/other"), "w1", "linux/amd64"),
        ImageTarget("docker", Registry("other.example.com", "team/images"), "w1", "linux/amd64"),
        ImageTarget("docker", TARGET.registry, "w1", "linux/arm64"),
        ImageTarget("docker", None, "w1", "linux/amd64"),
        ImageTarget("docker", None, "w2", "linux/amd64"),
        ImageTarget("podman", None, "w1", "linux/amd64"),
    ]
    other_sources = [
        ImageBuild(f"{REMOTE}2", COMMIT, SOURCE.dockerfile, SOURCE.build_args),
        ImageBuild(REMOTE, COMMIT[::-1], SOURCE.dockerfile, SOURCE.build_args),
        ImageBuild(REMOTE, COMMIT, "Dockerfile", SOURCE.build_args),
        ImageBuild(REMOTE, COMMIT, SOURCE.dockerfile, {"PYTHON": "3.11"}),
        ImageBuild(REMOTE, COMMIT, SOURCE.dockerfile, {"PYTHON": "3.12", "MORE": ""}),
        ImageBuild(REMOTE, COMMIT, SOURCE.dockerfile, {"PYTHON": '3.12","MORE":"'}),
        ImageBuild(REMOTE, COMMIT, SOURCE.dockerfile),
    ]
    keys = [image_key(SOURCE, TARGET), *(image_key(SOURCE, target) for target in other_targets)]
    keys += [image_key(source, TARGET) for source in other_sources]
    assert len(set(keys)) == len(keys) == 14
    assert all(key in TARGET.tag(key) for key in keys)


def test_a_key_stays_the_same_from_release_to_release() -> None:
    assert image_key(SOURCE, TARGET) == "42be027e86c668d6f69b09fddae621199cd5eb8edfe0e90f73788ecc117dd04c"


def test_the_key_does_not_depend_on_what_does_not_decide_the_content() -> None:
    same = [
        (ImageBuild(REMOTE, COMMIT, "./docker/Dockerfile", {"B": "2", "A": "1"}), TARGET),
        (
            ImageBuild(f"{REMOTE}/", COMMIT, "docker/Dockerfile", {"A": "1", "B": "2"}),
            ImageTarget("buildah", Registry("registry.example.com", "team/images", "ci", "secret"), "w2", "linux/amd64"),
        ),
    ]
    assert len({image_key(source, target) for source, target in same}) == 1


def test_a_branch_has_no_key() -> None:
    with pytest.raises(ValueError, match="'main' is not a commit"):
        image_key(ImageBuild(REMOTE, "main"), TARGET)


@pytest.mark.parametrize("host", ["", "https://registry", "a b", "registry/", "registry:port", "-registry", "user@registry"])
def test_a_registry_that_is_no_host_is_refused(host: str) -> None:
    with pytest.raises(InvalidImageTarget, match="the host of the registry"):
        Registry(host)


@pytest.mark.parametrize("repository", ["", "Team", "a//b", "/a", "a/", "a:b", "a b", "../a"])
def test_a_repository_that_no_registry_has_is_refused(repository: str) -> None:
    with pytest.raises(InvalidImageTarget, match="lower-case"):
        Registry("registry", repository)


def test_a_target_names_its_images_by_the_builder_and_the_registry() -> None:
    assert ImageTarget("docker").tag("k") == "snowpack:k"
    assert ImageTarget("buildah").tag("k") == "localhost/snowpack:k"
    assert ImageTarget("podman", Registry("localhost:5000")).tag("k") == "localhost:5000/snowpack:k"
    assert this_platform().startswith("linux/")
    assert "secret" not in repr(ImageTarget("docker", Registry("registry", password="secret")))
    with pytest.raises(InvalidImageTarget, match="one of docker, buildah, podman"):
        ImageTarget("nerdctl")
