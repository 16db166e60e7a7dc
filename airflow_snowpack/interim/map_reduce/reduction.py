"""Reduce the rows of a table to one with a Python function, layer by layer, on Spark.

    def sums(rows):                                                # at most fan_in rows as dictionaries, in order; gives one row
        return {"flights": sum(row["flights"] for row in rows), "miles": sum(row["miles"] for row in rows)}

    reduced = reduce_rows(sums, per_day, fan_in=100)
    reduced.row, str(reduced.layers), reduced.df                   # {"flights": 336776, …}, "365 → 4 → 1", a DataFrame of one row

The function gets and gives rows of the same columns, since what one layer gives the next one gets. It is called for each
``fan_in`` rows in turn of the table's order (see :func:`sort_keys`), and for the rows that remain; then for its own rows, in the
same order; until there is one. So a reduction depends on the rows, the order and ``fan_in`` only, never on how Spark divides the
work. One row alone is the result as it is, as with :func:`functools.reduce`, and no rows are a ``TypeError``.

The invariant: **each row is in exactly one group of each layer.** The tasks hold the numbers of the rows that they meet against
the plan, and fail with :class:`WrongRows` where one is missing or there twice; so the numbers in :class:`Layers` are what
happened.

Nothing but counts and the last row comes to the driver, and nothing is written outside of Spark: see decision 21 in
``docs/decisions``.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_snowpack.interim.map_reduce.errors import InvalidColumns, InvalidReduction, WrongRows, function_failure
from airflow_snowpack.interim.map_reduce.functions import ShippedFunction
from airflow_snowpack.interim.map_reduce.layers import Layers, check_fan_in
from airflow_snowpack.interim.map_reduce.reduce_task import INDEX, LayerTask, reduce_partition
from airflow_snowpack.interim.map_reduce.rows import Columns, columns_of, data_frame, rows_of
from airflow_snowpack.spark import SparkFailed, SparkWork
from airflow_snowpack.spark.interrupt import is_connect

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from airflow_snowpack.interim.map_reduce.layers import Layer
    from airflow_snowpack.interim.refs import TableRef, ViewRef


T = TypeVar("T")

log = logging.getLogger(__name__)

ReduceFunction = Callable[..., Mapping[str, Any]]
# How Spark numbers rows by itself: 31 bits for the partition, 33 for the place in it.
PLACE_BITS = 33


@dataclass(frozen=True, slots=True)
class Reduced:
    """What a reduction came to.

    :param row: the one row.
    :param df: the same as a DataFrame, which is there already: to use it costs no second reduction.
    :param layers: what was done.
    """

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
    """The one row that a function makes of all rows of a table. It is done at once, and not when the result is needed.

    :param fn: ``fn(rows, *args, **kwargs)``: a list of at most ``fan_in`` rows as dictionaries, in order; gives a row of the same
        columns.
    :param fan_in: how many rows it gets at most, from 2; a task holds so many at a time.
    :param order_by: what rows are ordered by first, such as ``"day"`` or ``["delay desc", "day"]``; then by all other columns.
    :param partitions: how many Spark tasks a layer has at most; ``None`` for the session's ``spark.sql.shuffle.partitions``.
    :param spark: the session that reads a ref; a DataFrame brings its own.
    :param work: lets another thread interrupt it.
    :raises TypeError: the table is empty.
    :raises InvalidReduction: ``fan_in`` is below 2, or the order names what is not there.
    :raises InvalidColumns: the columns cannot be those of dictionaries.
    :raises UnusableFunction: it, or an argument of it, cannot be sent to Spark's tasks.
    :raises FunctionFailed: it raised, or gave what is no row of these columns; says at which rows of which layer.
    :raises WrongRows: Spark did not give every row exactly once.
    :raises SparkFailed, SparkInterrupted: from Spark.
    """
    check_fan_in(fan_in)
    df = data_frame(table, spark)
    columns = _columns(df)
    function = ShippedFunction.of(fn, args, kwargs)
    reduction = _Reduction(df, columns, function, fan_in, partitions, work or SparkWork())
    return reduction.run(sort_keys(df, order_by))


@dataclass(frozen=True, slots=True)
class _Reduction:
    """One reduction on its way."""

    df: DataFrame
    columns: Columns
    function: ShippedFunction
    fan_in: int
    partitions: int | None
    work: SparkWork

    def run(self, keys: list[Any]) -> Reduced:
        began = time.monotonic()
        ordered = self._on_spark(partial(_kept, self.df.sort(*keys)))
        try:
            reduced = self._layered(ordered)
        finally:
            _let_go(ordered)
        log.info("Reduced %d rows to one in %.1f s", reduced.layers.rows, time.monotonic() - began)
        return reduced

    def _layered(self, ordered: DataFrame) -> Reduced:
        counts = self._on_spark(partial(_counts, ordered))
        most = self.partitions if self.partitions is not None else _shuffle_partitions(self.df.sparkSession)
        layers = Layers.plan(sum(counts.values()), self.fan_in, most)
        log.info(
            "Reducing with %s, %d rows at a time, in %d layers: %s", self.function.name, self.fan_in, len(layers.layers), layers
        )
        result = _numbered(ordered, counts)
        for layer in layers.layers:
            result = self._reduced(result, layer)
        # One row of what may have been many: the only one that comes here.
        found = self._on_spark(result.drop(INDEX).toArrow)
        reduced = self._result(found, layers)
        for layer in layers.layers:
            log.info("Reduced with %s, %s", self.function.name, layer)
        return reduced

    def _reduced(self, df: DataFrame, layer: Layer) -> DataFrame:
        """One layer: the rows go to their groups' tasks, in order."""
        from pyspark.sql.functions import expr

        # Neighbours stay together: in the order of the groups, as many of them in each task.
        place = expr(f"CAST((`{INDEX}` DIV {self.fan_in}) * {layer.partitions} DIV {layer.rows_out} AS INT)")
        grouped = df.repartitionById(layer.partitions, place).sortWithinPartitions(INDEX)
        task = LayerTask(self.function, layer, self.fan_in, self.columns.arrow)
        return grouped.mapInArrow(partial(reduce_partition, task), _with_index(self.columns))

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


def _columns(df: DataFrame) -> Columns:
    columns = columns_of(df, None)
    if INDEX in columns.spark.names:
        raise InvalidColumns(INDEX, "a reduction numbers its rows in a column of this name; rename it")
    return columns


def _with_index(columns: Columns) -> Any:
    from pyspark.sql.types import LongType, StructField, StructType

    return StructType([*columns.spark.fields, StructField(INDEX, LongType(), nullable=False)])


def _kept(ordered: DataFrame) -> DataFrame:
    """The rows as they are now, on the disks of Spark's executors.

    So they are the same when they are counted and when they are read, which a sort in parts, by a sample, is not by itself.
    """
    from pyspark import StorageLevel

    return ordered.localCheckpoint(eager=True, storageLevel=StorageLevel.DISK_ONLY)


def _let_go(kept: DataFrame) -> None:
    """Have a Spark Connect server forget the rows at once; the JVM of a classic session does so by itself.

    What is left to the end of the process hangs there: pyspark then asks the server from a destructor, which needs a thread that
    Python does not start any more. An error whose traceback holds the rows would take them that far.
    """
    if not is_connect(kept.sparkSession):
        return
    relation: Any = kept._plan  # of Connect's own DataFrame
    relation.__del__()
    relation._relation_id = None  # so that its destructor finds nothing to do


def _counts(ordered: DataFrame) -> dict[int, int]:
    """How many rows each partition has."""
    from pyspark.sql.functions import spark_partition_id

    counted = ordered.groupBy(spark_partition_id().alias("partition")).count().collect()
    return {row["partition"]: row["count"] for row in counted}


def _numbered(ordered: DataFrame, counts: Mapping[int, int]) -> DataFrame:
    """The rows with their numbers, from 0, without gaps, in order."""
    from pyspark.sql.functions import expr

    begins, begin = [], 0
    for partition in range(max(counts) + 1):
        begins.append(begin)
        begin += counts.get(partition, 0)
    offsets = ", ".join(f"{each}L" for each in begins)
    own = "monotonically_increasing_id()"
    mask = (1 << PLACE_BITS) - 1
    return ordered.withColumn(INDEX, expr(f"array({offsets})[shiftright({own}, {PLACE_BITS})] + ({own} & {mask}L)"))


def _shuffle_partitions(session: SparkSession) -> int:
    return int(session.conf.get("spark.sql.shuffle.partitions") or 1)


TERM = re.compile(r"(?P<name>.+?)(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?", re.IGNORECASE)


def sort_keys(df: DataFrame, order_by: Sequence[str] | str) -> list[Column]:
    """What to sort by.

    :param order_by: column names, each with ``asc`` or ``desc``, and ``nulls first`` or ``nulls last``, as SQL has it.
    :raises InvalidReduction: it names no column of the table, or one that has no order; or no column has one.
    """
    sortable = {field.name: _has_order(field.dataType) for field in df.schema}
    given = [_read(term, sortable) for term in ([order_by] if isinstance(order_by, str) else order_by)]
    named = {key.name for key in given}
    rest = [_Key(name) for name, has_order in sortable.items() if has_order and name not in named]
    if not given and not rest:
        raise InvalidReduction("table", ", ".join(sortable), "none of its columns has an order; add one that has")
    return [key.column() for key in (*given, *rest)]


@dataclass(frozen=True, slots=True)
class _Key:
    """One term of an order."""

    name: str
    down: bool = False
    nulls_first: bool = True

    def column(self) -> Column:
        from pyspark.sql.functions import col

        column = col("`" + self.name.replace("`", "``") + "`")
        if self.down:
            return column.desc_nulls_first() if self.nulls_first else column.desc_nulls_last()
        return column.asc_nulls_first() if self.nulls_first else column.asc_nulls_last()


def _read(term: str, sortable: dict[str, bool]) -> _Key:
    found = TERM.fullmatch(term.strip())
    name = "" if found is None else found["name"].strip("`")
    # As Spark itself finds a column: however it is written.
    known = next((each for each in sortable if each.lower() == name.lower()), None)
    if found is None or known is None:
        raise InvalidReduction("order_by", term, f"the table has only the columns {', '.join(sortable)}")
    if not sortable[known]:
        raise InvalidReduction("order_by", term, "values of its type have no order")
    down = (found["direction"] or "").lower() == "desc"
    nulls = (found["nulls"] or "").lower()
    return _Key(known, down, nulls == "first" if nulls else not down)


def _has_order(kind: Any) -> bool:
    from pyspark.sql import types

    if isinstance(kind, types.StructType):
        return all(_has_order(field.dataType) for field in kind)
    if isinstance(kind, types.ArrayType):
        return _has_order(kind.elementType)
    # A geometry or a variant is atomic, and has none.
    without = (types.VariantType, types.SpatialType)
    return isinstance(kind, types.AtomicType) and not isinstance(kind, without)
