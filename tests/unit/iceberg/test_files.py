"""Which deletes a reader applies to a data file (Iceberg specification, scan planning)."""

from __future__ import annotations

from airflow_snowpack.iceberg.metadata_reader import DeleteKind, LiveDelete, LiveFile, TableFiles

MARCH, APRIL = (3,), (4,)


def data(path: str = "a", *, partition: tuple[int, ...] = MARCH, sequence: int = 5, spec_id: int = 0) -> LiveFile:
    return LiveFile(path, bytes=10, records=100, spec_id=spec_id, partition=partition, sequence=sequence)


def delete(
    kind: DeleteKind = DeleteKind.POSITION,
    *,
    partition: tuple[int, ...] = MARCH,
    sequence: int = 5,
    about: str | None = None,
    spec_id: int = 0,
) -> LiveDelete:
    return LiveDelete("d", 1, 1, spec_id, partition, sequence, kind, about)


def applies(one: LiveDelete, file: LiveFile) -> bool:
    return bool(TableFiles((file,), (one,)).deletes_of(file))


def test_a_position_delete_applies_to_data_of_its_own_commit_and_before() -> None:
    assert applies(delete(sequence=5), data(sequence=5))
    assert applies(delete(sequence=6), data(sequence=5))
    assert not applies(delete(sequence=4), data(sequence=5))


def test_an_equality_delete_applies_only_to_data_before_its_commit() -> None:
    assert applies(delete(DeleteKind.EQUALITY, sequence=6), data(sequence=5))
    assert not applies(delete(DeleteKind.EQUALITY, sequence=5), data(sequence=5))


def test_a_delete_stays_in_its_partition_and_its_spec() -> None:
    assert not applies(delete(partition=APRIL), data(partition=MARCH))
    assert not applies(delete(spec_id=1), data(spec_id=0))


def test_a_delete_about_one_file_leaves_its_neighbours_alone() -> None:
    assert applies(delete(about="a"), data("a"))
    assert not applies(delete(about="a"), data("b"))


def test_an_equality_delete_without_a_partition_applies_everywhere() -> None:
    assert applies(delete(DeleteKind.EQUALITY, partition=(), sequence=6, spec_id=1), data(partition=APRIL))
