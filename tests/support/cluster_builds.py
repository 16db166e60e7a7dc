"""A driver with a cluster of two executors, each a JVM of its own: ``python cluster_builds.py <storage's URL> <scratch folder>``.

The storage's options come as a line of JSON on its standard input, then lines ``run_id rows shards``; each writes such a build
and is answered with a line ``done run_id``.

It is what Spark calls a local cluster, but for the names of its hosts: Spark never starts a copy of a slow task on the host where
the first one runs, and all executors of a local cluster have the same.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from shard_writing import write_shards

from airflow_snowpack.builds.model import Sharding
from airflow_snowpack.builds.storage import Storage

HOSTS = ("127.0.0.1", "127.0.0.2")
MEMORY_MB = 600
CONF = {
    "spark.executor.memory": f"{MEMORY_MB}m",
    "spark.driver.host": HOSTS[0],
    "spark.driver.bindAddress": HOSTS[0],
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    # A task that takes longer than others is started a second time on the other executor.
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    # Rows go to whichever executor is free.
    "spark.locality.wait": "0s",
}


def start_cluster(gateway: Any, scratch: str) -> str:
    """A master and two workers in the driver's own JVM; they start the executors. The answer is the master's address."""
    jvm = gateway.jvm
    conf = jvm.org.apache.spark.SparkConf(False)
    conf.set("spark.master.rest.enabled", "false").set("spark.shuffle.service.enabled", "false")
    master = jvm.org.apache.spark.deploy.master.Master.startRpcEnvAndEndpoint(HOSTS[0], 0, 0, conf)
    address = f"spark://{HOSTS[0]}:{master._1().address().port()}"
    masters = gateway.new_array(jvm.java.lang.String, 1)
    masters[0] = address
    nothing = jvm.scala.Option.empty()
    for number, host in enumerate(HOSTS):
        folder = f"{scratch}/worker-{number}"
        jvm.org.apache.spark.deploy.worker.Worker.startRpcEnvAndEndpoint(
            host, 0, 0, 1, MEMORY_MB, masters, folder, jvm.scala.Option.apply(number), conf, nothing
        )
    return address


def main(url: str, scratch: str) -> None:
    os.environ |= {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": scratch,
        "SPARK_LOCAL_IP": HOSTS[0],
    }
    conf = SparkConf().setAll(list(CONF.items())).setAppName("builds")
    gateway = launch_gateway(conf)
    context = SparkContext(conf=conf.setMaster(start_cluster(gateway, scratch)), gateway=gateway)
    session = SparkSession(context)
    storage = Storage(url, json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    for line in sys.stdin:
        run_id, rows, shards = line.split()
        df = session.range(0, int(rows), 1, 4).selectExpr("id * 7 AS id", "concat('n', id) AS name")
        write_shards(df, storage, run_id, Sharding.hash(int(shards)), "id")
        print("done", run_id, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
