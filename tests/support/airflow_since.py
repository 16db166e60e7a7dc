"""Tests of what older versions of Airflow lack: the tests of the faces can run on those versions too.

@since_airflow(3, 3)
def test_a_watcher_emits_an_event(): ...
"""

from __future__ import annotations

from importlib.metadata import version

import pytest

INSTALLED = version("apache-airflow-core")


def since_airflow(major: int, minor: int) -> pytest.MarkDecorator:
    installed = tuple(int(part) for part in INSTALLED.split(".")[:2])
    return pytest.mark.skipif(installed < (major, minor), reason=f"Airflow {INSTALLED} lacks it; see docs/compatibility.md")
