from .build import Build as Build
from .build_spec import BuildSpec as BuildSpec
from .model import Retention as Retention, ShardFormat as ShardFormat, Sharding as Sharding
from .read.reader import SnapshotReader as SnapshotReader
from .read.spark_reader import read_build as read_build
from .registry.model import BuildPolicy as BuildPolicy
from .registry.runs import BuildRegistry as BuildRegistry
from .storage import Storage as Storage
from .write.rows_source import RowsSource as RowsSource
from .write.spark_source import SparkSource as SparkSource
