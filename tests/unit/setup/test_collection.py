"""What collecting the tests costs: every process of a run pays for it, so heavy libraries load in the tests that use them."""

from __future__ import annotations

import pytest
from collecting import LOADED_BY_COLLECTING

BANNED = {"airflow", "moto", "playwright", "pyspark", "schemathesis"}


def test_collecting_all_tests_loads_no_heavy_library(request: pytest.FixtureRequest) -> None:
    """All tests of this run: in a whole one, each process has collected every file before it runs this."""
    assert BANNED & request.config.stash[LOADED_BY_COLLECTING] == set()
