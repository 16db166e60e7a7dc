"""Unstable tests: what failed in a whole run and passes when it runs again, alone. `.ci/run` names them; more than two fail it.

    SNOWPACK_FAILED_TESTS=FILE make test || python tests/support/unstable_tests.py FILE

The invariant: **only a run that was finished is completed this way**. One that was interrupted writes no file, and fails.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

MOST = 2


def record_failed(file: Path, terminalreporter: Any) -> None:
    """Write down which tests of a run failed."""
    failed = {report.nodeid for outcome in ("failed", "error") for report in terminalreporter.stats.get(outcome, [])}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(sorted(failed)))


def run_again(failed: list[str]) -> bool:
    """Run each of these tests in a process of its own, and name those that pass; return whether all do, and they are few."""
    if len(failed) > MOST:
        print(f"{len(failed)} tests failed: too many to be unstable. None is run again.", flush=True)
        return False
    passed = [name for name in failed if not subprocess.run([sys.executable, "-m", "pytest", name], check=False).returncode]
    for name in passed:
        print(f"unstable: {name}", flush=True)
    return passed == failed


if __name__ == "__main__":
    written = Path(sys.argv[1])
    if not written.exists():
        sys.exit("The tests were not run to their end.")
    sys.exit(not run_again(json.loads(written.read_text())))
