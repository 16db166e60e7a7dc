"""The files of a release: exactly the package with its templates, DAGs and schema, and the same bytes from the same commit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from bounded import PATIENCE_S
from distribution import check_sdist, check_wheel

REPOSITORY = Path(__file__).parents[3]
pytestmark = pytest.mark.one_database


def build(folder: Path) -> tuple[Path, Path]:
    command = [sys.executable, "-m", "uv", "build", "--quiet", "--out-dir", str(folder), str(REPOSITORY)]
    subprocess.run(command, check=True, timeout=PATIENCE_S, env=os.environ | {"SOURCE_DATE_EPOCH": "1767225600"})
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_a_release_has_the_package_with_its_licence_and_entry_points_and_can_be_built_again(tmp_path: Path) -> None:
    wheel, sdist = build(tmp_path / "first")
    check_wheel(wheel)
    check_sdist(sdist)

    again = build(tmp_path / "second")
    assert [path.read_bytes() for path in again] == [wheel.read_bytes(), sdist.read_bytes()]
