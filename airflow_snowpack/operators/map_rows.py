"""Maps a table's rows one by one with a function, and hands the new table on.

def in_km(row, digits):
    return {"flight": row["flight"], "km": round(row["distance"] * 1.609, digits)} if row["distance"] else None

MapRowsOperator(
    task_id="in_km", python_callable=in_km, table=clean.output, schema="flight int, km double", op_kwargs={"digits": 1}
)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.mapping import Made, MapsTable, Source

if TYPE_CHECKING:
    from airflow.sdk import Context


class MapRowsOperator(MapsTable):
    """Gives each row of a table to a function; its rows become an interim table.

    The arguments are those of :class:`~airflow_snowpack.operators.mapping.MapsTable`, and:

    :param schema: the columns of the new rows, such as ``"flight int, km double"``, in Spark's DDL; ``None`` for those of the
    table.

    The function gets a row as a dictionary, and gives the new one, or ``None`` to leave it out. Returns the ref of the new table.
    """

    def __init__(self, *, schema: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    def execute(self, context: Context) -> dict[str, Any]:
        """Map."""
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.mapping import map_rows
        from airflow_snowpack.store.operation import OperationKind

        def mapped(source: Source) -> Made:
            df = map_rows(self.python_callable, source.df, self.schema, **self.arguments())
            return Made(df, OperationKind.MAP, {"function": name_of(self.python_callable)})

        return self.hand_on(context, mapped)
