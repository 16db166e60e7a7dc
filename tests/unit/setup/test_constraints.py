"""What ``constraints.txt`` and ``pyproject.toml`` promise to every installation."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    document: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    return document


@pytest.fixture(scope="module")
def constraints() -> dict[str, Requirement]:
    lines = [line for line in (REPOSITORY / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    requirements = [Requirement(line) for line in lines]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def test_every_constraint_is_one_version_and_no_address(constraints: dict[str, Requirement]) -> None:
    for requirement in constraints.values():
        assert requirement.url is None
        assert [specifier.operator for specifier in requirement.specifier] == ["=="]


def test_pyspark_and_its_client_have_one_version(constraints: dict[str, Requirement], project: dict[str, Any]) -> None:
    assert str(constraints["pyspark"].specifier) == str(constraints["pyspark-client"].specifier)
    extra = project["optional-dependencies"]["spark-provider"]
    pinned = {requirement.name: str(requirement.specifier) for requirement in map(Requirement, extra)}
    assert pinned["pyspark"] == pinned["pyspark-client"] == str(constraints["pyspark"].specifier)


def test_every_requirement_has_its_constraint(constraints: dict[str, Requirement], project: dict[str, Any]) -> None:
    extras = [text for texts in project["optional-dependencies"].values() for text in texts]
    for requirement in map(Requirement, [*project["dependencies"], *extras]):
        if requirement.name == project["name"]:
            continue
        constraint = constraints[canonicalize_name(requirement.name)]
        version = next(iter(constraint.specifier)).version
        assert requirement.specifier.contains(version, prereleases=True), f"{constraint} is not what {requirement} asks for"
