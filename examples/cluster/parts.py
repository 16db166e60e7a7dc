"""The parts of the cluster, and in which order they start.

started = parts_in_order(["rest", "connect"])       # Postgres, SeaweedFS, IcebergRest, SparkStandalone, SparkConnectServer
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.cluster.airflow import AirflowProcesses
from examples.cluster.errors import UnknownPart
from examples.cluster.glue import Glue
from examples.cluster.iceberg_rest import IcebergRest
from examples.cluster.metastore import Metastore
from examples.cluster.postgres import Postgres
from examples.cluster.seaweedfs import SeaweedFS
from examples.cluster.snowpack import SnowpackInstallation
from examples.cluster.spark_connect import SparkConnectServer
from examples.cluster.spark_standalone import SparkStandalone
from examples.cluster.spark_thrift import SparkThriftServer
from examples.cluster.worker import QueueWorker
from examples.cluster.yarn import Yarn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from examples.cluster.part import Part

PARTS: dict[str, type[Part]] = {
    part.name: part
    for part in (
        Postgres,
        SeaweedFS,
        IcebergRest,
        SparkStandalone,
        SparkConnectServer,
        SnowpackInstallation,
        QueueWorker,
        AirflowProcesses,
        SparkThriftServer,
        Yarn,
        Metastore,
        Glue,
    )
}


def parts_in_order(names: Iterable[str]) -> list[type[Part]]:
    """Return the named parts with what they need, each after the parts that it needs.

    :raises UnknownPart: there is no part of a name.
    """
    ordered: dict[type[Part], None] = {}

    def add(part: type[Part]) -> None:
        for needed in part.needs:
            add(needed)
        ordered.setdefault(part)

    for name in names:
        if name not in PARTS:
            raise UnknownPart(name, sorted(PARTS))
        add(PARTS[name])
    return list(ordered)
