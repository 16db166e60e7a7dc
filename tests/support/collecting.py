"""What a process of a run has loaded by the end of its collection; the run's conftest writes it down.

banned = BANNED & request.config.stash[LOADED_BY_COLLECTING]
"""

from __future__ import annotations

import pytest

LOADED_BY_COLLECTING = pytest.StashKey[frozenset[str]]()
