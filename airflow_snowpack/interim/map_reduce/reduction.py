"""Reduce the rows of a table to one row with a Python function on Spark, layer by layer.

    def sums(rows):                                                # at most fan_in rows as dictionaries, in order; returns one
        return {"flights": sum(row["flights"] for row in rows), "miles": sum(row["miles"] for row in rows)}

    reduced = reduce_rows(sums, per_day, fan_in=100)
    reduced.row, str(reduced.layers), reduced.df                   # {"flights": 336776, …}, "365 → 4 → 1", a DataFrame of one row

The function returns rows with the columns of its input, because the rows that one layer returns are the input of the next. It is
called for each ``fan_in`` rows in the table's order (:func:`sort_keys`) and for the remaining rows, then for the rows it
returned, in the same order, until one is left. So the result depends only on the rows, the order and ``fan_in``, not on how Spark
divides the work. As with :func:`functools.reduce`, a single row is the result, and no rows are a ``TypeError``.

Invariant: **each row is in exactly one group of each layer.** The tasks compare the numbers of the rows they read with the plan,
and raise :class:`WrongRows` if one is missing or duplicated. A task keeps the rows of one group in memory. Only counts and the
last row reach the driver, and nothing is written outside of Spark (decision 21 in ``docs/decisions``).
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from airflow_snowpack.arrow.rows import RowBatches, rows_of
from airflow_snowpack.humanize import duration, plural
from airflow_snowpack.interim.map_reduce.errors import InvalidColumns, InvalidReduction, WrongRows, function_failure
from airflow_snowpack.interim.map_reduce.functions import FunctionCall, ShippedFunction
from airflow_snowpack.interim.map_reduce.layers import Layer, Layers, check_fan_in
from airflow_snowpack.interim.map_reduce.rows import Columns, columns_of, data_frame
from airflow_snowpack.interim.refs import TableRef, ViewRef
from airflow_snowpack.spark import SparkFailed, SparkWork
from airflow_snowpack.spark.statements import is_connect

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

log = logging.getLogger(__name__)
T = TypeVar("T")

ReduceFunction = Callable[..., Mapping[str, Any]]
TERM = re.compile(r"(?P<name>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE)
# Spark's row numbers have 31 bits for the partition, and 33 for the position in it.
PLACE_BITS = 33
INDEX = "__snowpack_index"
"""The column of row numbers, which the result does not have."""
ROWS_PER_BATCH = 1000


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of a reduction: the row, the same as a DataFrame that is already computed, and the layers."""

    row: dict[str, Any]
    df: DataFrame
    layers: Layers


def reduce_rows(
    fn: ReduceFunction,
    table: DataFrame | TableRef | ViewRef,
    fan_in: int,
    *,
    order_by: Sequence[str] | str = (),
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    partitions: int | None = None,
    spark: SparkSession | None = None,
    work: SparkWork | None = None,
) -> Reduced:
    """Reduce all rows of a table to one row with a function, before the call returns.

    :param fn: ``fn(rows, *args, **kwargs)``: gets up to ``fan_in`` rows, a list of dictionaries in order; returns such a row.
    :param fan_in: the maximum of rows per call, at least 2; a task keeps this many in memory.
    :param order_by: the first sort keys: ``"day"``, or ``["delay desc", "day"]``; all other columns follow.
    :param partitions: the maximum of Spark tasks per layer; ``None`` for the session's ``spark.sql.shuffle.partitions``.
    :param spark: the session that reads a reference; a DataFrame has one.
    :param work: lets another thread interrupt the work.
    :raises TypeError: the table is empty.
    :raises InvalidReduction: ``fan_in`` is below 2, or the order names an unknown column.
    :raises InvalidColumns: dictionaries cannot have these columns.
    :raises UnusableFunction: the function or an argument cannot be sent to Spark's tasks.
    :raises FunctionFailed: the function raised an error, or did not return a row with these columns.
    :raises WrongRows: Spark did not pass on every row exactly once.
    :raises SparkFailed, SparkInterrupted: from Spark.
    """
    check_fan_in(fan_in)
    df = data_frame(table, spark)
    columns = columns_of(df, None)
    if INDEX in columns.spark.names:
        raise InvalidColumns(INDEX, "a reduction numbers its rows in a column of this name; rename it")
    function = ShippedFunction.of(fn, args, kwargs)
    reduction = _Reduction(df, columns, function, fan_in, partitions, work or SparkWork())
    return reduction.run(sort_keys(df, order_by))


@dataclass(frozen=True, slots=True)
class _Reduction:
    df: DataFrame
    columns: Columns
    function: ShippedFunction
    fan_in: int
    partitions: int | None
    work: SparkWork

    def run(self, keys: list[Any]) -> Reduced:
        began = time.monotonic()
        ordered = self._on_spark(partial(_materialize, self.df.sort(*keys)))
        try:
            reduced = self._reduce_layers(ordered)
        finally:
            _free(ordered)
        log.info("Reduced %s to one in %s", plural(reduced.layers.rows, "row"), duration(time.monotonic() - began))
        return reduced

    def _reduce_layers(self, ordered: DataFrame) -> Reduced:
        counts = self._on_spark(partial(_counts, ordered))
        most = self.partitions
        if most is None:
            most = int(self.df.sparkSession.conf.get("spark.sql.shuffle.partitions") or 1)
        layers = Layers.plan(sum(counts.values()), self.fan_in, most)
        how = "Reducing with %s, %d rows at a time, in %d layers: %s"
        log.info(how, self.function.name, self.fan_in, len(layers.layers), layers)
        result = _number_rows(ordered, counts)
        for layer in layers.layers:
            result = self._reduce_layer(result, layer)
        # The only row that reaches the driver.
        found = self._on_spark(result.drop(INDEX).toArrow)
        reduced = self._result(found, layers)
        for layer in layers.layers:
            log.info("Reduced with %s, %s", self.function.name, layer)
        return reduced

    def _reduce_layer(self, df: DataFrame, layer: Layer) -> DataFrame:
        """Reduce one layer: send the rows to the tasks of their groups, in order."""
        from pyspark.sql.functions import expr
        from pyspark.sql.types import LongType, StructField, StructType

        # Neighbours stay together: each task gets the same number of groups, in order.
        place = expr(f"CAST((`{INDEX}` DIV {self.fan_in}) * {layer.partitions} DIV {layer.rows_out} AS INT)")
        grouped = df.repartitionById(layer.partitions, place).sortWithinPartitions(INDEX)
        task = LayerTask(self.function, layer, self.fan_in, self.columns.arrow)
        schema = StructType([*self.columns.spark.fields, StructField(INDEX, LongType(), nullable=False)])
        return grouped.mapInArrow(partial(reduce_partition, task), schema)

    def _result(self, found: pa.Table, layers: Layers) -> Reduced:
        if found.num_rows != 1:
            raise WrongRows.at("the last layer", "1 row", found.num_rows)
        (row,) = rows_of(found.cast(self.columns.arrow).combine_chunks().to_batches()[0])
        df = self.df.sparkSession.createDataFrame(found, schema=self.columns.spark)
        return Reduced(row, df, layers)

    def _on_spark(self, call: Callable[[], T]) -> T:
        try:
            return self.work.run(self.df.sparkSession, call)
        except SparkFailed as failure:
            ours = function_failure(failure)
            if ours is None:
                raise
            raise ours from failure


def sort_keys(df: DataFrame, order_by: Sequence[str] | str) -> list[Column]:
    """Return the sort keys; the rows alone determine the order.

    The given terms are followed by all other columns, ascending with nulls first. Rows that are still equal are identical, so it
    does not matter how Spark divides and reads them. Columns without an order (maps, variants, types with them) are left out.

    :param order_by: column names, each with ``asc`` or ``desc``, and ``nulls first`` or ``nulls last``, as in SQL.
    :raises InvalidReduction: it names an unknown column, or one without an order; or no column has an order.
    """
    sortable = {field.name: _has_order(field.dataType) for field in df.schema}
    given = [_key(term, sortable) for term in ([order_by] if isinstance(order_by, str) else order_by)]
    named = {name for name, _ in given}
    rest = [_ordered(name) for name, has_order in sortable.items() if has_order and name not in named]
    if not given and not rest:
        raise InvalidReduction("table", ", ".join(sortable), "none of its columns has an order; add one that has")
    return [*(column for _, column in given), *rest]


def _ordered(name: str, *, descending: bool = False, nulls_first: bool = True) -> Column:
    from pyspark.sql.functions import col

    column = col("`" + name.replace("`", "``") + "`")
    if descending:
        return column.desc_nulls_first() if nulls_first else column.desc_nulls_last()
    return column.asc_nulls_first() if nulls_first else column.asc_nulls_last()


def _key(term: str, sortable: dict[str, bool]) -> tuple[str, Column]:
    """Return the column that a term of an order names, and its sort key."""
    found = TERM.fullmatch(term.strip())
    name = "" if found is None else found["name"].strip("`")
    # Like Spark, find a column in any case.
    known = next((each for each in sortable if each.lower() == name.lower()), None)
    if found is None or known is None:
        raise InvalidReduction("order_by", term, f"the table has only the columns {', '.join(sortable)}")
    if not sortable[known]:
        raise InvalidReduction("order_by", term, "values of its type have no order")
    descending, nulls = (found["direction"] or "").lower() == "desc", (found["nulls"] or "").lower()
    return known, _ordered(known, descending=descending, nulls_first=nulls == "first" if nulls else not descending)


def _has_order(kind: Any) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return all(_has_order(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _has_order(kind.elementType)
    # Geometries and variants are atomic, but have no order.
    return isinstance(kind, types.AtomicType) and not isinstance(kind, types.VariantType | types.SpatialType)


def _materialize(ordered: DataFrame) -> DataFrame:
    """Store the rows on the disks of Spark's executors: a sort by samples may differ when it is read again."""
    from pyspark import StorageLevel

    return ordered.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def _free(stored: DataFrame) -> None:
    """Make a Spark Connect server free the rows now; the JVM of a classic session does so by itself.

    Rows left until the process ends make it hang: pyspark then calls the server from a destructor, which needs a thread that
    Python no longer starts. An error whose traceback refers to the rows would keep them that long.
    """
    if not is_connect(stored.sparkSession):
        return
    relation: Any = stored._plan  # of Connect's DataFrame
    relation.__del__()
    relation._relation_id = None  # its destructor then has nothing to do


def _counts(ordered: DataFrame) -> dict[int, int]:
    """Return the number of rows of each partition."""
    from pyspark.sql.functions import spark_partition_id

    counted = ordered.groupBy(spark_partition_id().alias("partition")).count().collect()
    return {row["partition"]: row["count"] for row in counted}


def _number_rows(ordered: DataFrame, counts: Mapping[int, int]) -> DataFrame:
    """Return the rows in order, numbered from 0 without gaps."""
    from pyspark.sql.functions import expr

    begins, begin = [], 0
    for partition in range(max(counts) + 1):
        begins.append(begin)
        begin += counts.get(partition, 0)
    offsets = ", ".join(f"{each}L" for each in begins)
    own, mask = "monotonically_increasing_id()", (1 << PLACE_BITS) - 1
    return ordered.withColumn(INDEX, expr(f"array({offsets})[shiftright({own}, {PLACE_BITS})] + ({own} & {mask}L)"))


@dataclass(frozen=True, slots=True)
class LayerTask:
    function: ShippedFunction
    layer: Layer
    fan_in: int
    schema: pa.Schema

    def size(self, group: CallGroup) -> int:
        """Return how many rows the group must have."""
        return min(self.fan_in, self.layer.rows_in - group.first)

    def place(self, group: int) -> str:
        """Return the place of a group, for error messages."""
        first = group * self.fan_in
        return f"layer {self.layer.number}, rows {first} to {min(first + self.fan_in, self.layer.rows_in) - 1}"


@dataclass(frozen=True, slots=True)
class CallGroup:
    """The rows of one call of the function; ``number`` is also that of the row it returns."""

    number: int
    first: int
    rows: list[dict[str, Any]]


def reduce_partition(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reduce the groups of a partition in a Spark task."""
    call, made = FunctionCall.begin(task.function), RowBatches(task.schema)
    numbers: list[int] = []
    rows: list[Any] = []

    def batch() -> pa.RecordBatch:
        reduced = call.batch(made, rows, lambda at: task.place(numbers[at]))
        return reduced.append_column(pa.field(INDEX, pa.int64(), nullable=False), pa.array(numbers, pa.int64()))

    for group in groups(task, batches):
        numbers.append(group.number)
        rows.append(call(group.rows, task.place(group.number)))
        if len(rows) >= ROWS_PER_BATCH:
            yield batch()
            numbers, rows = [], []
    if rows:
        yield batch()


def groups(task: LayerTask, batches: Iterator[pa.RecordBatch]) -> Iterator[CallGroup]:
    """Yield the complete groups of a partition; raise :class:`WrongRows` if a row is missing, duplicated or misplaced."""
    group: CallGroup | None = None
    for batch in batches:
        for row in rows_of(batch):
            index = row.pop(INDEX)
            if group is None:
                group = CallGroup(index // task.fan_in, index - index % task.fan_in, [])
            if index != group.first + len(group.rows):
                raise WrongRows.at(task.place(group.number), f"row {group.first + len(group.rows)} next", f"row {index}")
            group.rows.append(row)
            if len(group.rows) == task.size(group):
                yield group
                group = None
    if group is not None:
        raise WrongRows.at(task.place(group.number), f"{task.size(group)} rows", len(group.rows))
