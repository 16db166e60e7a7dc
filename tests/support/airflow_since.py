"""Tests of what older versions of Airflow lack: ``make compat`` runs the tests of the faces on those versions too.

@since_airflow(3, 3)
def test_a_watcher_emits_an_event(): ...
"""

from __future__ import annotations

import pytest
from airflow import __version__


def since_airflow(major: int, minor: int) -> pytest.MarkDecorator:
    installed = tuple(int(part) for part in __version__.split(".")[:2])
    return pytest.mark.skipif(installed < (major, minor), reason=f"Airflow {__version__} lacks it; see docs/compatibility.md")
