"""Several ``airflow`` commands in one process, one after the other: to start one takes as long as most of them.

echo '[["dags", "test", "a"], ["dags", "test", "b"]]' | python airflow_commands.py
"""

from __future__ import annotations

import json
import sys

from airflow.__main__ import main

for arguments in json.load(sys.stdin):
    sys.argv = ["airflow", *arguments]
    main()
