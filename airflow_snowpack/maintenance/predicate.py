"""A ``where`` predicate, as far as metadata can answer it.

    >>> select_files(MetadataReader(table), "month = 3").paths  # doctest: +SKIP
    frozenset({'file:///warehouse/db/flights/data/month=3/part-0.parquet'})

The invariant: the files that are named are those that **may** hold matching rows, judged by partition values and column bounds as
Iceberg judges them. Spark's predicates have more forms than PyIceberg reads (functions, casts, typed literals); one that it
cannot read is no error here, because Spark may well run it: the answer is then "any file", with the reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_snowpack.iceberg import MetadataReader


@dataclass(frozen=True, slots=True)
class Selection:
    """Data files that a rewrite would look at.

    :param paths: ``None`` for all of them.
    :param problem: why the predicate could not be evaluated.
    """

    paths: frozenset[str] | None = None
    problem: str | None = None


def select_files(reader: MetadataReader, where: str | None, branch: str | None = None) -> Selection:
    """The data files that a predicate may match; all of them without one.

    :param reader: reads each manifest once, whatever else is asked of it, if it keeps bytes.
    :param branch: whose files; ``None`` for main.
    """
    from pyparsing import ParseBaseException

    if where is None:
        return Selection()
    try:
        scan = reader.scanned.scan(row_filter=where, case_sensitive=False)
        tasks = (scan if branch is None else scan.use_ref(branch)).plan_files()
        return Selection(frozenset(task.file.file_path for task in tasks))
    # PyIceberg: text it cannot read, columns it does not know, literals of another type, equality deletes.
    except (ParseBaseException, ValueError, TypeError, NotImplementedError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        return Selection(problem=f"the predicate {where[:120]!r} cannot be evaluated from metadata ({reason})")
