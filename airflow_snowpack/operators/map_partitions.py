"""Maps a table's partitions with a function over Arrow batches, and hands the new table on.

def scored(batches):
    model = load_model()
    for batch in batches:
        yield model.predict(batch)

MapPartitionsOperator(task_id="score", python_callable=scored, table=features.output, schema="id bigint, score double")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_snowpack.operators.mapping import Made, MapsTable, Source

if TYPE_CHECKING:
    from airflow.sdk import Context


class MapPartitionsOperator(MapsTable):
    """Gives the batches of each partition of a table to a function; its batches become an interim table.

    The arguments are those of :class:`~airflow_snowpack.operators.mapping.MapsTable`, and:

    :param schema: the columns of the new rows, such as ``"id bigint, score double"``, in Spark's DDL; ``None`` for those of the
    table.

    The function gets an iterator of Arrow record batches, and gives record batches. Returns the ref of the new table.
    """

    def __init__(self, *, schema: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.schema = schema

    def execute(self, context: Context) -> dict[str, Any]:
        """Map."""
        from airflow_snowpack.interim.map_reduce.functions import name_of
        from airflow_snowpack.interim.map_reduce.mapping import map_partitions
        from airflow_snowpack.store.operation import OperationKind

        def mapped(source: Source) -> Made:
            df = map_partitions(self.python_callable, source.df, self.schema, **self.arguments())
            return Made(df, OperationKind.MAP, {"function": name_of(self.python_callable), "by": "partition"})

        return self.hand_on(context, mapped)
