"""The databases on which a test of the store runs."""

from __future__ import annotations

import pytest
from effort import SOAK


def databases_of(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    """Return both, or one for a test that is marked so."""
    is_marked = metafunc.definition.get_closest_marker
    if is_marked("one_database"):
        return ("sqlite",)
    return ("postgres",) if is_marked("both_in_soak") and not SOAK else ("sqlite", "postgres")
