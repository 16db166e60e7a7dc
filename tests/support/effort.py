"""How many rounds a randomized test runs: a few in ``make test``, many in ``make soak``.

    ROUNDS = rounds(3, soak=60)

``SNOWPACK_SOAK=1`` selects the second number; ``SNOWPACK_SEED`` replaces the seeds that tests give to ``random.Random``.
"""

from __future__ import annotations

import os

SOAK = os.environ.get("SNOWPACK_SOAK") == "1"


def rounds(test: int, *, soak: int) -> int:
    """Return the first number in ``make test``, the second in ``make soak``."""
    return soak if SOAK else test


def seed(default: int) -> int:
    """Return the seed of a test: its own, or the one that ``SNOWPACK_SEED`` gives to all."""
    return int(os.environ.get("SNOWPACK_SEED", default))
