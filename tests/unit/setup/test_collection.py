"""What collecting the tests costs: every process of a run pays for it, so heavy libraries load in the tests that use them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[3]
BANNED = {"airflow", "moto", "playwright", "pyspark", "schemathesis"}
COLLECT = f"""
import sys, pytest
code = pytest.main(["--collect-only", "-qq", "-p", "no:cacheprovider", "--assert=plain"])
loaded = sorted({BANNED!r} & sys.modules.keys())
sys.exit(f"exit code {{code}}, loaded: {{loaded}}" if code or loaded else 0)
"""


def test_collecting_all_tests_loads_no_heavy_library() -> None:
    collected = subprocess.run([sys.executable, "-c", COLLECT], cwd=REPOSITORY, capture_output=True, text=True, check=False)

    assert collected.returncode == 0, collected.stdout[-2000:] + collected.stderr
