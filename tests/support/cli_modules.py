"""``airflow …`` as a process of its own that tells at its end which modules it loaded beyond those of every ``airflow`` call.

``python cli_modules.py <file> snowpack api …``
"""

from __future__ import annotations

import atexit
import sys
from pathlib import Path

from airflow.__main__ import main
from airflow.cli.cli_parser import get_parser

if __name__ == "__main__":
    told = Path(sys.argv.pop(1))
    sys.argv[0] = "airflow"
    get_parser()
    before = set(sys.modules)
    atexit.register(lambda: told.write_text("\n".join(sorted(set(sys.modules) - before))))
    main()
