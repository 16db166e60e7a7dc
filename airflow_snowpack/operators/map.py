"""Apply a Python function to the rows of a table on Spark, into a new interim table.

    class MyOperator(MapsTable):
        def apply(self, context, df):
            return Made(map_rows(self.python_callable, df, **self.arguments()), OperationKind.MAP)

The task reads one snapshot, of an interim table or of any other, and the lineage names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.interim.map_reduce.layers import check_fan_in
from airflow_snowpack.operators.arguments import UnreadableArgument, read_names, read_number, read_object, read_text, read_values
from airflow_snowpack.operators.interim import HandsOver

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.iceberg import TableName
    from airflow_snowpack.interim.handover import TableHandover
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.lineage.operation import OperationKind

LAYERS = "layers"
EXPECTED = "the output of a task that returns a table, or the name of an Iceberg table, database.table"


@dataclass(frozen=True, slots=True)
class Made:
    """New rows, and how the lineage describes them: ``detail`` has JSON values."""

    df: DataFrame
    kind: OperationKind
    detail: Mapping[str, Any] = field(default_factory=dict)


class MapsTable(HandsOver):
    """Base of the operators that apply a function to a table. The result becomes an interim table, see :class:`HandsOver`.

    :param python_callable: the function. It runs in Spark's tasks: its module is sent to them, what it imports must be installed.
    :param table: the output of a task that returns a table (``table=clean.output``, or the call of a ``@task.snowpack``), a view
        on one, or the name of an Iceberg table, ``database.table``, which is read as of its current snapshot. (templated)
    :param op_args: more arguments of the function. (templated)
    :param op_kwargs: more keyword arguments. (templated)
    """

    template_fields: Sequence[str] = (*HandsOver.template_fields, "table", "op_args", "op_kwargs")
    template_fields_renderers: ClassVar[dict[str, str]] = {"table": "json", "op_args": "json", "op_kwargs": "json"}

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        table: Any,
        op_args: Sequence[Any] | str = (),
        op_kwargs: Mapping[str, Any] | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not callable(python_callable):
            raise ValueError(f"python_callable = {python_callable!r:.200} is not callable.")
        self.python_callable = python_callable
        self.table = table
        self.op_args = op_args
        self.op_kwargs = op_kwargs or {}

    def apply(self, context: Context, df: DataFrame) -> Made:
        """Return the result of the function on the rows."""
        raise NotImplementedError

    def execute(self, context: Context) -> dict[str, Any]:
        """Read the table, apply the function, and write the result.

        :returns: the reference of the new table, as XCom stores it.
        :raises AirflowFailException: a retry would fail again.
        :raises FunctionFailed: the function raised an error; a retry may succeed.
        """
        with self.handing_over(context) as handover:
            source = self._source()  # before Spark is started
            session = self.spark_session()
            return handover.run(session, lambda: self._write_table(context, handover, session, source))

    def arguments(self) -> dict[str, Any]:
        """Return what the function receives besides the rows."""
        args = self.op_args if not isinstance(self.op_args, str) else read_values("op_args", self.op_args)
        return {"args": tuple(args), "kwargs": read_object("op_kwargs", self.op_kwargs)}

    def _write_table(
        self, context: Context, handover: TableHandover, session: SparkSession, source: Ref | TableName
    ) -> dict[str, Any]:
        from airflow_snowpack.builds.write.spark_source import SparkSource
        from airflow_snowpack.iceberg import TableName
        from airflow_snowpack.lineage.operation import TableAt

        if isinstance(source, TableName):
            found = SparkSource.table(session, source)
            df, inputs = found.df, [TableAt(each["table"], each.get("snapshot_id")) for each in found.sources]
        else:
            df, inputs = handover.read(source, session), []  # the handover knows the inputs of its tables
        made = self.apply(context, df)
        return handover.give(made.df, kind=made.kind, detail=made.detail, inputs=inputs).to_json()

    def _source(self) -> Ref | TableName:
        """:raises UnreadableArgument: ``table`` is neither a reference nor a name."""
        from airflow_snowpack.interim.refs import is_ref, read_ref

        # A template such as "{{ ti.xcom_pull('clean') }}" renders a reference to text.
        is_object = isinstance(self.table, str) and self.table.strip().startswith("{")
        given = read_object("table", self.table) if is_object else self.table
        if is_ref(given):
            return read_ref(given)
        name = read_text(given)
        if not isinstance(given, str) or name is None:
            raise UnreadableArgument("table", given, EXPECTED)
        return self.catalog_hook().table_name(name)


class MapRowsOperator(MapsTable):
    """Maps the rows of a table one by one with a function, into a new interim table.

        def in_km(row, digits):
            return {"flight": row["flight"], "km": round(row["distance"] * 1.609, digits)} if row["distance"] else None

        MapRowsOperator(
            task_id="in_km", python_callable=in_km, table=clean.output, schema="flight int, km double", op_kwargs={"digits": 1}
        )

    The function receives a row as a dictionary and returns the new one, or ``None`` to drop it.

    :param schema: the columns of the new rows in Spark's DDL, such as ``"flight int, km double"``; ``None`` for the table's.

    For the other arguments see :class:`~airflow_snowpack.operators.map.MapsTable`. Returns the reference of the new table.
    """

    def __init__(self, *, schema: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    def apply(self, context: Context, df: DataFrame) -> Made:
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.mapping import map_rows
        from airflow_snowpack.lineage.operation import OperationKind

        mapped = map_rows(self.python_callable, df, self.schema, **self.arguments())
        return Made(mapped, OperationKind.MAP, {"function": name_of(self.python_callable)})


class MapPartitionsOperator(MapsTable):
    """Maps the partitions of a table with a function over Arrow batches, into a new interim table.

        def scored(batches):
            model = load_model()
            for batch in batches:
                yield model.predict(batch)

        MapPartitionsOperator(task_id="score", python_callable=scored, table=features.output, schema="id bigint, score double")

    The function receives an iterator of Arrow record batches and yields record batches.

    :param schema: the columns of the new rows in Spark's DDL, such as ``"id bigint, score double"``; ``None`` for the table's.

    For the other arguments see :class:`~airflow_snowpack.operators.map.MapsTable`. Returns the reference of the new table.
    """

    def __init__(self, *, schema: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    def apply(self, context: Context, df: DataFrame) -> Made:
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.mapping import map_partitions
        from airflow_snowpack.lineage.operation import OperationKind

        mapped = map_partitions(self.python_callable, df, self.schema, **self.arguments())
        return Made(mapped, OperationKind.MAP, {"function": name_of(self.python_callable), "by": "partition"})


class ReduceRowsOperator(MapsTable):
    """Reduces the rows of a table to one with a function, layer by layer, into a new interim table of that row.

        def sums(rows):
            return {"flights": sum(row["flights"] for row in rows), "miles": sum(row["miles"] for row in rows)}

        ReduceRowsOperator(task_id="total", python_callable=sums, table=per_day.output, fan_in=100)

    The function receives a list of rows as dictionaries and returns a row of the same columns. An empty table raises
    ``TypeError``.

    :param fan_in: how many rows the function receives at most, from 2. (templated)
    :param order_by: the order of the rows, such as ``"day"`` or ``["delay desc", "day"]``; all other columns follow. (templated)
    :param partitions: how many Spark tasks a layer has at most; ``None`` for the session's ``spark.sql.shuffle.partitions``.

    For the other arguments see :class:`~airflow_snowpack.operators.map.MapsTable`. Returns the reference of a table with the last
    row; the XCom ``layers`` has the input rows of each layer, its partitions, and its output rows.
    """

    template_fields: Sequence[str] = (*MapsTable.template_fields, "fan_in", "order_by")

    def __init__(
        self, *, fan_in: int | str, order_by: Sequence[str] | str = (), partitions: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(fan_in, str):
            check_fan_in(fan_in)
        self.fan_in = fan_in
        self.order_by = order_by
        self.partitions = partitions

    def apply(self, context: Context, df: DataFrame) -> Made:
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.reduction import reduce_rows
        from airflow_snowpack.lineage.operation import OperationKind

        fan_in = read_number("fan_in", self.fan_in)
        if fan_in is None:
            raise UnreadableArgument("fan_in", self.fan_in, "a whole number from 2")
        order_by = read_names("order_by", self.order_by) if self.order_by else ()
        reduced = reduce_rows(self.python_callable, df, fan_in, order_by=order_by, partitions=self.partitions, **self.arguments())
        layers = reduced.layers.to_json()
        context["ti"].xcom_push(key=LAYERS, value=layers)
        return Made(reduced.df, OperationKind.REDUCE, {"function": name_of(self.python_callable), **layers})
