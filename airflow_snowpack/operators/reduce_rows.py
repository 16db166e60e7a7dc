"""Reduces a table's rows to one with a function, layer by layer, and hands on the table of that row.

def sums(rows):
    return {"flights": sum(row["flights"] for row in rows), "miles": sum(row["miles"] for row in rows)}

ReduceRowsOperator(task_id="total", python_callable=sums, table=per_day.output, fan_in=100)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.interim.map_reduce.layers import check_fan_in
from airflow_snowpack.operators.arguments import UnreadableArgument, read_names, read_number
from airflow_snowpack.operators.mapping import Made, MapsTable, Source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import Context

LAYERS = "layers"


class ReduceRowsOperator(MapsTable):
    """Gives the rows of a table to a function, so many at a time, and then what it made of them, until there is one.

    The arguments are those of :class:`~airflow_snowpack.operators.mapping.MapsTable`, and:

    :param fan_in: how many rows the function gets at most, from 2. (templated)
    :param order_by: what the rows are ordered by first, such as ``"day"`` or ``["delay desc", "day"]``; then by all other
    columns.
        (templated)
    :param partitions: how many Spark tasks a layer has at most; ``None`` for the session's ``spark.sql.shuffle.partitions``.

    The function gets a list of rows as dictionaries, and gives a row of the same columns. Returns the ref of a table with the
    last row; the XCom ``layers`` says how many rows went into each layer, on how many partitions, and how many came out. An empty
    table is a ``TypeError``."""

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

    def execute(self, context: Context) -> dict[str, Any]:
        """Reduce."""
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.reduction import reduce_rows
        from airflow_snowpack.store.operation import OperationKind

        def reduced(source: Source) -> Made:
            came_to = reduce_rows(
                self.python_callable,
                source.df,
                self._rendered_fan_in(),
                order_by=read_names("order_by", self.order_by) if self.order_by else (),
                partitions=self.partitions,
                **self.arguments(),
            )
            layers = came_to.layers.to_json()
            context["ti"].xcom_push(key=LAYERS, value=layers)
            return Made(came_to.df, OperationKind.REDUCE, {"function": name_of(self.python_callable), **layers})

        return self.hand_on(context, reduced)

    def _rendered_fan_in(self) -> int:
        fan_in = read_number("fan_in", self.fan_in)
        if fan_in is None:
            raise UnreadableArgument("fan_in", self.fan_in, "a whole number from 2")
        return fan_in
