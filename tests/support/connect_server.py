"""A Spark Connect server in front of a cluster of two executors, each a JVM of its own: ``python connect_server.py <scratch>``.

Spark's settings come as a line of JSON on its standard input. It says ``ready`` when it can be asked, and leaves when its input
ends.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

MASTER = "local-cluster[2,1,600]"
CONF = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}


def main(scratch: str) -> None:
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": scratch,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": scratch,
    }
    conf = SparkConf().setMaster(MASTER).setAppName("connect").setAll([*CONF.items(), *json.loads(sys.stdin.readline()).items()])
    context = SparkContext(conf=conf)
    SparkSession(context)
    print("ready", flush=True)
    sys.stdin.read()
    context.stop()


if __name__ == "__main__":
    main(sys.argv[1])
