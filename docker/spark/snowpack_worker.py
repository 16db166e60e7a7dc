"""The application of ``spark-submit``: a worker in Spark's driver, with the options of ``snowpack-worker``."""

import sys

from airflow_snowpack.worker.__main__ import main

sys.exit(main())
