"""An installation whose clock the test moves, with four tables, and what is wrong with them in a line each."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pages_world import TABLES, World, open_world

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


@pytest.fixture
def world(store_url: str, tmp_path: Path) -> Iterator[World]:
    opened = open_world(tmp_path, START, TABLES, url=store_url)
    yield opened
    opened.close()
