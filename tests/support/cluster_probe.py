"""A load probe as an installation would write it; the tests set what it says through the environment."""

from __future__ import annotations

import os


def load() -> float:
    return float(os.environ["SNOWPACK_TEST_LOAD"])
