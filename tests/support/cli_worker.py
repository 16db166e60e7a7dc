"""``airflow snowpack …`` as a process of its own, whose engine blocks the main thread inside of a C call that no signal ends."""

from __future__ import annotations

import sys

from airflow.__main__ import main
from worker_process import StuckEngine

from airflow_snowpack.worker import process

if __name__ == "__main__":
    process.engines = lambda _installation, _spark, **_: StuckEngine  # type: ignore[assignment]  # in this process only
    sys.argv[0] = "airflow"
    main()
