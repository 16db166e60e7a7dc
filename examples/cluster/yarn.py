"""YARN's two daemons, for Spark's ``--deploy-mode cluster``.

    yarn = Yarn(home)
    yarn.start()
    subprocess.run(yarn.submit_command(program), env=yarn.environment)

A node of 4 GiB, whose containers are plain processes.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, ClassVar
from xml.etree import ElementTree

import httpx

from airflow_snowpack.spark.config import ICEBERG_EXTENSIONS
from airflow_snowpack.spark.java import find_java
from airflow_snowpack.spark.runtimes import installed_runtime
from examples.cluster.jars import AWS_BUNDLE, PYSPARK_JARS, Jars, pyspark_jars
from examples.cluster.part import Part
from examples.cluster.process import LOCALHOST, ServerProcess, free_ports
from examples.cluster.spark import PATIENCE, SPARK_HOME, spark_environment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

COORDINATES = (
    "org.apache.hadoop:hadoop-client-minicluster:3.4.2!",
    *(f"org.bouncycastle:{name}-jdk18on:1.78.1!" for name in ("bcprov", "bcpkix", "bcutil")),
    "javax.xml.bind:jaxb-api:2.3.1!",
    "com.sun.xml.bind:jaxb-impl:2.3.1!",
    "com.sun.xml.bind:jaxb-core:2.3.0.1!",
    "javax.activation:javax.activation-api:1.2.0!",
)
OF_PYSPARK = (
    *("hadoop-client-api", "hadoop-client-runtime", "slf4j-api", "jcl-over-slf4j", "log4j-api", "log4j-core"),
    *("log4j-1.2-api", "log4j-slf4j2-impl", "snappy-java", "zookeeper"),
)
JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "--add-opens", "java.base/java.lang=ALL-UNNAMED")
PACKAGE = "org.apache.hadoop.yarn.server"
ROLES = ("resourcemanager", "nodemanager")
RESOURCE_MANAGER_PORTS = ("address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address")
NODE_MANAGER_PORTS = ("address", "localizer.address", "webapp.address")
CONTAINER_MEMORY = "600m"


class Yarn(Part):
    """A ResourceManager and a NodeManager.

    :param home: the folder of configuration, logs and the files of applications.
    """

    name: ClassVar[str] = "yarn"

    def __init__(self, home: Path) -> None:
        super().__init__()
        self._home = home
        ports = iter(free_ports(len(RESOURCE_MANAGER_PORTS) + len(NODE_MANAGER_PORTS)))
        self._places = {f"yarn.resourcemanager.{each}": next(ports) for each in RESOURCE_MANAGER_PORTS}
        self._places |= {f"yarn.nodemanager.{each}": next(ports) for each in NODE_MANAGER_PORTS}
        self.url = f"http://{LOCALHOST}:{self._places['yarn.resourcemanager.webapp.address']}"

    def start(self) -> None:
        conf = self._home / "conf"
        conf.mkdir(parents=True)
        for name, settings in self._configuration().items():
            (conf / name).write_text(_xml(settings))
        manager = self._process("ResourceManager", "resourcemanager.ResourceManager", "-Xmx256m")
        self.run(manager, lambda: httpx.get(f"{self.url}/ws/v1/cluster/info").is_success)
        node = self._process("NodeManager", "nodemanager.NodeManager", "-Xmx200m")
        self.run(node, self._has_node)

    @property
    def addresses(self) -> dict[str, str]:
        return {"YARN": self.url, "HADOOP_CONF_DIR": str(self._home / "conf")}

    @property
    def environment(self) -> dict[str, str]:
        """The environment of ``spark-submit``."""
        return {**spark_environment(), "HADOOP_CONF_DIR": str(self._home / "conf")}

    def submit_command(self, program: Path, conf: Mapping[str, str] | None = None) -> list[str]:
        """Return the command that runs a Python program, with Iceberg, as an application of YARN.

        :param conf: further settings of Spark.
        :raises JarsMissing: Iceberg's jars cannot be downloaded.
        """
        places = {"JAVA_HOME": str(find_java().home), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOCALHOST}
        settings = {
            "spark.yarn.jars": f"local:{PYSPARK_JARS}/*",
            "spark.yarn.stagingDir": str(self._home / "staging"),
            "spark.driver.memory": CONTAINER_MEMORY,
            "spark.driver.memoryOverhead": "256m",
            "spark.executor.memory": CONTAINER_MEMORY,
            "spark.executor.memoryOverhead": "256m",
            "spark.executor.instances": "1",
            "spark.sql.extensions": ICEBERG_EXTENSIONS,
            **PATIENCE,
            **{f"spark.yarn.appMasterEnv.{key}": value for key, value in places.items()},
            **{f"spark.executorEnv.{key}": value for key, value in places.items()},
            "spark.jars": ",".join(map(str, Jars().get("spark", (f"{installed_runtime().coordinates}!", AWS_BUNDLE)))),
            **(conf or {}),
        }
        flags = [flag for key, value in settings.items() for flag in ("--conf", f"{key}={value}")]
        return [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "yarn", "--deploy-mode", "cluster", *flags, str(program)]

    def _process(self, name: str, role: str, heap: str) -> ServerProcess:
        jars = [self._home / "conf", *Jars().get(self.name, COORDINATES), *pyspark_jars(*OF_PYSPARK)]
        java = str(find_java().home / "bin" / "java")
        return ServerProcess(
            f"YARN's {name}",
            [java, heap, *JAVA_OPTIONS, "-cp", ":".join(map(str, jars)), f"{PACKAGE}.{role}"],
            port=self._places[f"yarn.{name.lower()}.webapp.address"],
            log=self._home / f"{name}.log",
            environment=spark_environment(),
            folder=self._home,
        )

    def _has_node(self) -> bool:
        return '"state":"RUNNING"' in httpx.get(f"{self.url}/ws/v1/cluster/nodes").text

    def _configuration(self) -> dict[str, dict[str, str]]:
        yarn = {
            **{key: f"{LOCALHOST}:{port}" for key, port in self._places.items()},
            **{
                f"yarn.{role}.{key}": LOCALHOST
                for role in ("resourcemanager", "nodemanager")
                for key in ("hostname", "bind-host")
            },
            "yarn.nodemanager.local-dirs": str(self._home / "local"),
            "yarn.nodemanager.log-dirs": str(self._home / "containers"),
            "yarn.nodemanager.resource.memory-mb": "4096",
            "yarn.nodemanager.resource.cpu-vcores": "4",
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            # A nearly full disk would make the node unhealthy.
            "yarn.nodemanager.disk-health-checker.enable": "false",
            # YARN's default of 250 ms is shorter than a worker needs to fail its job after SIGTERM.
            "yarn.nodemanager.sleep-delay-before-sigkill.ms": "10000",
            "yarn.scheduler.minimum-allocation-mb": "128",
        }
        queues = {
            "yarn.scheduler.capacity.root.queues": "default",
            "yarn.scheduler.capacity.root.default.capacity": "100",
            # On so small a node, Spark's driver alone is more than the default of 10 %.
            "yarn.scheduler.capacity.maximum-am-resource-percent": "0.9",
        }
        return {"core-site.xml": {"fs.defaultFS": "file:///"}, "yarn-site.xml": yarn, "capacity-scheduler.xml": queues}


def _xml(settings: Mapping[str, str]) -> str:
    root = ElementTree.Element("configuration")
    for name, value in settings.items():
        entry = ElementTree.SubElement(root, "property")
        ElementTree.SubElement(entry, "name").text = name
        ElementTree.SubElement(entry, "value").text = value
    return ElementTree.tostring(root, encoding="unicode")
