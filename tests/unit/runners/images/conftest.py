"""A Git repository, and a folder for what builds write."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_world import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "score.git")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder
