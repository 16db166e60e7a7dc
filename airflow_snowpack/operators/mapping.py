"""What the operators that map and reduce tables have in common: a function, and the table that it is for.

    class MyOperator(MapsTable):
        def execute(self, context):
            return self.hand_on(context, lambda table: Made(map_rows(self.python_callable, table.df), OperationKind.MAP))

The invariant: what is read is one snapshot, of an interim table or of any other, and what is recorded names it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_snowpack.operators.arguments import UnreadableArgument, read_object, read_text, read_values
from airflow_snowpack.operators.interim import HandsOver

if TYPE_CHECKING:
    from airflow.sdk import Context
    from pyspark.sql import DataFrame, SparkSession

    from airflow_snowpack.interim.handover import Handover
    from airflow_snowpack.interim.refs import Ref
    from airflow_snowpack.store.operation import OperationKind, TableAt

EXPECTED = "the output of a task that hands on a table, or the name of an Iceberg table, database.table"


@dataclass(frozen=True, slots=True)
class Source:
    """The rows that an operator works on.

    :param tables: where they come from, where that is no interim table: those are known to the handover.
    """

    df: DataFrame
    tables: tuple[TableAt, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """What came of them, and what the lineage says of how.

    :param detail: of what JSON can hold.
    """

    df: DataFrame
    kind: OperationKind
    detail: Mapping[str, Any] = field(default_factory=dict)


class MapsTable(HandsOver):
    """The part of an operator that gives a table to a function.

    :param python_callable: the function. It runs in Spark's tasks: its module travels along, what it imports must be there.
    :param table: the output of a task that hands on a table (``table=clean.output``, or the call of a ``@task.snowpack``), a view
        on one, or the name of an Iceberg table, ``database.table``, which is read as of its present snapshot. (templated)
    :param op_args: further arguments of the function. (templated)
    :param op_kwargs: further arguments by name. (templated)

    The arguments of :class:`~airflow_snowpack.operators.interim.HandsOver` say what becomes of the result.
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
            raise ValueError(f"python_callable = {python_callable!r:.200} is no function.")
        self.python_callable = python_callable
        self.table = table
        self.op_args = op_args
        self.op_kwargs = op_kwargs or {}

    def hand_on(self, context: Context, make: Callable[[Source], Made]) -> dict[str, Any]:
        """Read the table, have something made of it, and hand that on.

        :returns: the ref of what was made, as XCom keeps it.
        :raises AirflowFailException: what a retry would meet again.
        :raises FunctionFailed: the function has; which may be otherwise at the next try.
        """
        with self.handing_over(context) as handover:
            source_of = self._source()
            session = self.spark_session()

            def work() -> dict[str, Any]:
                source = source_of(handover, session)
                made = make(source)
                ref = handover.give(made.df, kind=made.kind, detail=made.detail, inputs=source.tables)
                return ref.to_json()

            return handover.run(session, work)

    def arguments(self) -> dict[str, Any]:
        """What the function gets beside the rows."""
        args = self.op_args if not isinstance(self.op_args, str) else read_values("op_args", self.op_args)
        return {"args": tuple(args), "kwargs": read_object("op_kwargs", self.op_kwargs)}

    def _source(self) -> Callable[[Handover, SparkSession], Source]:
        """What gives the rows; looked at before a Spark is started."""
        from airflow_snowpack.interim.refs import is_ref, read_ref

        given = read_object("table", self.table) if _looks_like_object(self.table) else self.table
        if is_ref(given):
            return _from_ref(read_ref(given))
        name = read_text(given)
        if not isinstance(given, str) or name is None:
            raise UnreadableArgument("table", given, EXPECTED)
        return _from_table(name, self.catalog_conn_id)


def _looks_like_object(value: object) -> bool:
    """Rendered to text, as in ``table="{{ ti.xcom_pull('clean') }}"``."""
    return isinstance(value, str) and value.strip().startswith("{")


def _from_ref(ref: Ref) -> Callable[[Handover, SparkSession], Source]:
    def source(handover: Handover, session: SparkSession) -> Source:
        return Source(handover.read(ref, session))

    return source


def _from_table(text: str, catalog_conn_id: str | None) -> Callable[[Handover, SparkSession], Source]:
    from airflow_snowpack.hooks.iceberg_catalog import IcebergCatalogHook

    name = IcebergCatalogHook(catalog_conn_id).table_name(text)

    def source(handover: Handover, session: SparkSession) -> Source:
        from airflow_snowpack.builds.write.spark_source import SparkSource
        from airflow_snowpack.store.operation import TableAt

        found = SparkSource.table(session, name)
        return Source(found.df, tuple(TableAt(told["table"], told.get("snapshot_id")) for told in found.sources))

    return source
