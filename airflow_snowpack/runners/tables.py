"""Tables on their way to an entry and back, as files in the exchange folder.

    write_parquet(folder / "inputs" / "flights" / "part-0.parquet", reader, "flights")
    CommandOutputs(folder, ["scored"]).read("scored")          # Parquet files that a command wrote
    FunctionOutputs(folder, ["table-0"]).read("table-0")       # Arrow streams that entry_process.py wrote

Rows are written and read batch by batch. The invariants: the types that are read are those that were written, and a file that an
entry wrote is read only if it is a regular file in the folder, not through a link that leaves it, and within its own bounds.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from airflow_snowpack.arrow.nesting import EXTENSION
from airflow_snowpack.runners.entry import NAME_FORM
from airflow_snowpack.runners.entry_process import OUTPUTS
from airflow_snowpack.runners.errors import OutputMissing, UnusableInput, UnusableOutputFile
from airflow_snowpack.runners.output_lines import loggable

ROW_GROUP_BYTES, ROW_GROUP_ROWS = 64 * 1024 * 1024, 1024 * 1024


def write_parquet(path: Path, batches: pa.RecordBatchReader | pa.Table, name: str) -> int:
    """Write rows to a Parquet file; return how many.

    :param name: of the input, for errors.
    :raises UnusableInput: Parquet has no type for a column, or changes its values.
    """
    reader = batches.to_reader() if isinstance(batches, pa.Table) else batches
    rows = 0
    try:
        with parquet.ParquetWriter(path, reader.schema) as writer:
            for group in _row_groups(reader):
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
                rows += group.num_rows
        kept = parquet.read_schema(path)
    except pa.ArrowException as error:
        raise UnusableInput(f"the table {name!r} cannot be written as Parquet: {error}") from error
    changed = [own.name for own, found in zip(reader.schema, kept, strict=True) if not own.equals(found)]
    if changed:
        raise UnusableInput(f"Parquet has no type for the columns {', '.join(changed)} of the table {name!r}; cast them")
    return rows


class CommandOutputs:
    """The Parquet files that a command wrote.

    :param names: of the declared outputs.
    :ivar ignored: the names of files and folders in ``outputs/`` that belong to none of them.
    :raises OutputMissing: an output does not exist.
    :raises UnusableOutputFile: a file of an output is not Parquet, has another schema than the others, or leaves the folder.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._folder = folder.resolve()
        outputs = folder / OUTPUTS
        found = self._names_in(outputs)
        self._files: dict[str, list[Path]] = {}
        self._schemas: dict[str, pa.Schema] = {}
        for name in names:
            self._files[name] = files = self._files_of(outputs, name)
            if not files:
                raise OutputMissing(name, [_shown(each) for each in found])
            self._schemas[name] = self._schema_of(files)
        own = {each for name in self._files for each in (name, f"{name}.parquet")}
        self.ignored = tuple(_shown(each) for each in found if each not in own)

    def read(self, name: str) -> pa.RecordBatchReader:
        """Return the rows of an output; reading them raises ``UnusableOutputFile`` for a damaged file."""
        return pa.RecordBatchReader.from_batches(self._schemas[name], self._batches(name))

    def _batches(self, name: str) -> Iterator[pa.RecordBatch]:
        for path in self._files[name]:
            try:
                yield from parquet.ParquetFile(path).iter_batches()
            except (pa.ArrowException, OSError, ValueError) as error:  # a name may not be UTF-8
                raise UnusableOutputFile(self._shown(path), error) from error

    def _names_in(self, folder: Path) -> list[str]:
        """Return the names of the files in a folder; empty if it does not exist."""
        if not os.path.lexists(folder):
            return []
        check_inside(folder, self._folder)
        try:
            return sorted(os.listdir(folder))
        except OSError as error:
            raise UnusableOutputFile(self._shown(folder), error) from error

    def _files_of(self, outputs: Path, name: str) -> list[Path]:
        file, folder = outputs / f"{name}.parquet", outputs / name
        is_file, is_folder = os.path.lexists(file), os.path.lexists(folder)
        if is_file and is_folder:
            raise UnusableOutputFile(self._shown(file), f"there is also the folder {OUTPUTS}/{name}")
        if is_file:
            check_regular(file, self._folder)
            return [file]
        if not is_folder:
            return []
        check_inside(folder, self._folder)
        if not folder.is_dir():
            raise UnusableOutputFile(self._shown(folder), f"it is not a folder; call the file {name}.parquet")
        return [self._part(folder / name) for name in self._names_in(folder) if name[0] not in "._"]

    def _part(self, path: Path) -> Path:
        """Return a file of a folder; skipping other formats, or the folders of a partitioned data set, would lose rows."""
        check_regular(path, self._folder)
        if path.suffix != ".parquet":
            raise UnusableOutputFile(self._shown(path), "its name does not end in .parquet")
        return path

    def _schema_of(self, files: list[Path]) -> pa.Schema:
        first: pa.Schema | None = None
        for path in files:
            try:
                schema = parquet.ParquetFile(path).schema_arrow.remove_metadata()
            except (pa.ArrowException, OSError, ValueError) as error:  # a name may not be UTF-8
                raise UnusableOutputFile(self._shown(path), error) from error
            if first is not None and not schema.equals(first):
                raise UnusableOutputFile(self._shown(path), f"its columns are not those of {files[0].name}")
            first = schema if first is None else first
        return first

    def _shown(self, path: Path) -> str:
        return _shown(os.path.relpath(path, self._folder))


class FunctionOutputs:
    """The Arrow streams that ``entry_process.py`` wrote.

    :param names: from the file of the result, which the entry may have forged.
    :raises UnusableOutputFile: a name is not that of an output, or its file does not exist or leaves the folder.
    """

    def __init__(self, folder: Path, names: Iterable[str]) -> None:
        self._files: dict[str, Path] = {}
        for name in names:
            if not NAME_FORM.fullmatch(name):
                raise UnusableOutputFile(repr(name[:200]), "it is not the name of an output")
            self._files[name] = folder / OUTPUTS / f"{name}.arrow"
        for path in self._files.values():
            check_regular(path, folder.resolve())

    def read(self, name: str) -> pa.RecordBatchReader:
        """Return the rows of an output.

        :raises UnusableOutputFile: it is damaged, perhaps only noticed while reading, or has a type that only the entry's
            environment has.
        """
        path = self._files[name]
        try:
            reader = pa.ipc.open_stream(pa.memory_map(str(path)))
        except (pa.ArrowException, OSError, ValueError) as error:
            raise UnusableOutputFile(path.name, error) from error
        unknown = next((field.name for field in reader.schema if _has_unknown_type(field)), None)
        if unknown is not None:
            raise UnusableOutputFile(path.name, f"the type of the column {unknown} is an extension of Arrow; cast it")
        return pa.RecordBatchReader.from_batches(reader.schema, _validated(reader, path))


def _validated(reader: pa.RecordBatchReader, path: Path) -> Iterator[pa.RecordBatch]:
    """Yield batches after checking all offsets in them: Arrow would follow an invalid one into other memory of this process."""
    try:
        for batch in reader:
            batch.validate(full=True)
            yield batch
    except (pa.ArrowException, OSError) as error:
        raise UnusableOutputFile(path.name, error) from error


def _shown(path: str) -> str:
    """Return a path for messages: an entry may give a file any name."""
    return loggable(os.fsencode(path))


def check_inside(path: Path, folder: Path) -> None:
    """:raises UnusableOutputFile: the path does not exist, or leads out of the folder, which has no links."""
    try:
        target = path.resolve(strict=True)
    except (OSError, RuntimeError, ValueError) as error:
        raise UnusableOutputFile(_shown(path.name), error) from error
    if not target.is_relative_to(folder):
        raise UnusableOutputFile(_shown(path.name), "it is a link out of the exchange folder")


def check_regular(path: Path, folder: Path) -> None:
    """:raises UnusableOutputFile: it is not a regular file in the folder, which has no links."""
    check_inside(path, folder)
    if not stat.S_ISREG(path.stat().st_mode):
        raise UnusableOutputFile(_shown(path.name), "it is not a regular file")


def _has_unknown_type(field: Any) -> bool:
    if EXTENSION in (field.metadata or {}):
        return True
    kind = field.type
    return any(_has_unknown_type(kind.field(place)) for place in range(kind.num_fields))


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Collect batches into row groups: small batches would otherwise make tiny ones."""
    collected: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        collected.append(batch)
        size, rows = size + batch.nbytes, rows + batch.num_rows
        if size >= ROW_GROUP_BYTES or rows >= ROW_GROUP_ROWS:
            yield pa.Table.from_batches(collected)
            collected, size, rows = [], 0, 0
    if collected:
        yield pa.Table.from_batches(collected)
