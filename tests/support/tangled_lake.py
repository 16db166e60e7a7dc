"""Catalogs whose tables lie where tables lie after some years: moved, renamed, nested, registered twice, with files of others.

lake = TangledLake(folder, random.Random(7))
lake.build(operations=12)
before = lake.contents()
...                                          # any maintenance
lake.check(before)
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from airflow_snowpack.iceberg import CatalogConfig, TableName

if TYPE_CHECKING:
    from pyiceberg.catalog.sql import SqlCatalog
    from pyiceberg.table import Table

Contents = dict[tuple[str, str], dict[int, list[int]]]

SCHEMA = pa.schema([("id", pa.int64())])
OLD = 20 * 24 * 3600
DATABASE = "db"
VIEW = sa.text(
    "INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location, iceberg_type) "
    "VALUES (:catalog, :database, :name, :file, 'VIEW')"
)


@dataclass
class TangledLake:
    """Three catalogs: two names in one database, and one in another database, with one warehouse.

    :ivar log: what was done, for the message of a failure.
    :ivar names: the tables, each with the name of its catalog.
    :ivar views: the metadata files of the views.
    """

    folder: Path
    random: random.Random
    log: list[str] = field(default_factory=list)
    catalogs: dict[str, SqlCatalog] = field(default_factory=dict)
    configs: dict[str, CatalogConfig] = field(default_factory=dict)
    names: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    views: list[Path] = field(default_factory=list)
    _made: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir()
        warehouse = f"file://{self.folder}/warehouse"
        for name, file in (("lake", "catalog.db"), ("pond", "catalog.db"), ("sea", "other.db")):
            self.configs[name] = CatalogConfig.sqlite(name, self.folder / file, warehouse=warehouse)
            self.catalogs[name] = cast("SqlCatalog", self.configs[name].load())
            sa.event.listen(self.catalogs[name].engine, "connect", _hasten)
            self.catalogs[name].engine.dispose()
            self.catalogs[name].create_namespace_if_not_exists(DATABASE)

    def close(self) -> None:
        for catalog in self.catalogs.values():
            catalog.close()

    # --- building ---

    def build(self, operations: int) -> None:
        """Create tables, and then do to them what their owners do over the years."""
        for _ in range(3):
            self.create()
        steps: tuple[Callable[[], None], ...] = (
            self.create,
            self.append,
            self.append,
            self.delete,
            self.move,
            self.send_elsewhere,
            self.bring_home,
            self.rename,
            self.recreate,
            self.register_again,
            self.copy_metadata,
            self.add_files,
            self.name_ref,
            self.link,
            self.litter,
            self.create_view,
        )
        for _ in range(operations):
            self.random.choice(steps)()
        self.age()

    def create(self, catalog: str | None = None, location: str | None = None) -> None:
        catalog = catalog or self.random.choice(("lake", "lake", "lake", "pond", "sea"))
        name = self._new_name()
        properties = self.random.choice(
            ({}, {}, {"write.object-storage.enabled": "true"}, {"write.data.path": self._elsewhere()})
        )
        if location is None and self.random.random() < 0.3:
            location = self._elsewhere()
        self._say(f"create {catalog}.{name} at {location} with {properties}")
        self.catalogs[catalog].create_table((DATABASE, name), SCHEMA, location=location, properties=properties)
        self.names.append((catalog, (DATABASE, name)))
        self.append(catalog, name)

    def append(self, catalog: str | None = None, name: str | None = None) -> None:
        table = self.pick() if name is None else self.catalogs[catalog or ""].load_table((DATABASE, name))
        first = self.random.randrange(10_000)
        self._say(f"append to {label(table)}")
        table.append(pa.table({"id": range(first, first + 3)}, schema=SCHEMA))

    def delete(self) -> None:
        table = self.pick()
        self._say(f"overwrite {label(table)}")
        table.overwrite(pa.table({"id": [self.random.randrange(10_000)]}, schema=SCHEMA))

    def move(self) -> None:
        from pyiceberg.table.update import SetLocationUpdate

        table, place = self.pick(), self._elsewhere()
        self._say(f"move {label(table)} to {place}")
        with table.transaction() as change:
            change._apply((SetLocationUpdate(location=place),))
        self.append(table.catalog.name, table.name()[-1])
        if self.random.random() < 0.5:
            old = table.location()
            self._say(f"a new table where {label(table)} was, {old}")
            self.create(location=old)

    def send_elsewhere(self) -> None:
        table = self.pick()
        key = self.random.choice(("write.data.path", "write.data.path", "write.metadata.path"))
        place = self._elsewhere()
        self._say(f"{key} of {label(table)} is {place}")
        with table.transaction() as change:
            change.set_properties({key: place})
        self.append(table.catalog.name, table.name()[-1])

    def bring_home(self) -> None:
        table = self.pick()
        self._say(f"{label(table)} has no more paths")
        with table.transaction() as change:
            for key in ("write.data.path", "write.metadata.path"):
                if key in table.properties:
                    change.remove_properties(key)

    def rename(self) -> None:
        table, name = self.pick(), self._new_name()
        self._say(f"rename {label(table)} to {name}")
        table.catalog.rename_table(table.name(), (DATABASE, name))
        self.names.remove((table.catalog.name, table.name()))
        self.names.append((table.catalog.name, (DATABASE, name)))
        if self.random.random() < 0.5:
            self._say("and a new table under the old name")
            table.catalog.create_table(table.name(), SCHEMA)
            self.names.append((table.catalog.name, table.name()))
            self.append(table.catalog.name, table.name()[-1])

    def recreate(self) -> None:
        table = self.pick()
        self._say(f"drop {label(table)} and create it again")
        table.catalog.drop_table(table.name())
        table.catalog.create_table(table.name(), SCHEMA, location=self.random.choice((None, table.location())))
        self.append(table.catalog.name, table.name()[-1])

    def register_again(self) -> None:
        table, name = self.pick(), self._new_name()
        catalog = self.random.choice(("lake", "pond", "sea"))
        self._say(f"register {label(table)} as {catalog}.{name}")
        self.catalogs[catalog].register_table((DATABASE, name), table.metadata_location)
        self.names.append((catalog, (DATABASE, name)))
        if self.random.random() < 0.5:
            self.append(catalog, name)

    def copy_metadata(self) -> None:
        table, name = self.pick(), self._new_name()
        catalog = self.random.choice(("lake", "pond", "sea"))
        source = path_of(table.metadata_location)
        copy = self.folder / "warehouse" / "copies" / name / source.name
        copy.parent.mkdir(parents=True)
        shutil.copy(source, copy)
        self._say(f"register a copy of the metadata of {label(table)} as {catalog}.{name}")
        self.catalogs[catalog].register_table((DATABASE, name), f"file://{copy}")
        self.names.append((catalog, (DATABASE, name)))

    def add_files(self) -> None:
        giver, taker = self.pick(), self.pick()
        files = [task.file.file_path for task in giver.scan().plan_files()]
        have = {task.file.file_path for task in taker.scan().plan_files()}
        new = [file for file in files if file not in have][:2]
        if new:
            self._say(f"add {len(new)} files of {label(giver)} to {label(taker)}")
            taker.add_files(new)

    def name_ref(self) -> None:
        table = self.pick()
        snapshot = self.random.choice(table.metadata.snapshots).snapshot_id
        name, change = self._new_name(), table.manage_snapshots()
        self._say(f"a ref on {label(table)}")
        (change.create_tag if self.random.random() < 0.5 else change.create_branch)(snapshot, name).commit()

    def link(self) -> None:
        """A symbolic link in a table's folder to another table's data, or to its own."""
        table, other = self.pick(), self.pick()
        target, folder = path_of(other.location()) / "data", path_of(table.location())
        if target.is_dir() and folder.is_dir():
            self._say(f"a link in {label(table)} to the data of {label(other)}")
            (folder / f"link_{self._new_name()}").symlink_to(target)

    def create_view(self, location: str | None = None) -> None:
        """A view as Iceberg's Java library keeps it, in a place that a table may have by now."""
        place = path_of(location or self.random.choice((self.pick().location(), self._elsewhere()))) / "metadata"
        catalog, name = self.random.choice(("lake", "pond", "sea")), self._new_name()
        file = place / f"00000-{UUID(int=self.random.getrandbits(128), version=4)}.gz.metadata.json"
        self._say(f"create the view {catalog}.{name} with the file {file}")
        place.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"a view")
        row = {"catalog": catalog, "database": DATABASE, "name": name, "file": f"file://{file}"}
        with self.catalogs[catalog].engine.begin() as conn:
            conn.execute(VIEW, row)
        self.views.append(file)

    def litter(self) -> None:
        table = self.pick()
        file = path_of(table.location()) / "data" / f"stray_{self._new_name()}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"stray")

    def age(self) -> None:
        """Make all files old enough to be orphans, and all snapshots to expire."""
        moment = time.time() - OLD
        for root, _, files in os.walk(self.folder / "warehouse"):
            for name in files:
                os.utime(Path(root, name), (moment, moment))

    def pick(self) -> Table:
        """Return one of the tables."""
        name, identifier = self.random.choice(self.names)
        return self.catalogs[name].load_table(identifier)

    def table_name(self, catalog: str, identifier: tuple[str, ...]) -> TableName:
        return TableName(catalog, DATABASE, identifier[-1], self.configs[catalog].catalog_id)

    def _elsewhere(self) -> str:
        """A place of its own, inside that of a table, or where a table has been."""
        own = f"file://{self.folder}/warehouse/places/{self._new_name()}"
        if not self.names or self.random.random() < 0.3:
            return own
        location = self.pick().location()
        inner = self.random.choice((f"{location}/data/{self._new_name()}", f"{location}/{self._new_name()}"))
        return self.random.choice((inner, inner.replace("file://", "file:"), inner.replace("file://", "")))

    def _new_name(self) -> str:
        self._made += 1
        return f"t{self._made}"

    def _say(self, text: str) -> None:
        self.log.append(text.replace(str(self.folder), ""))

    # --- checking ---

    def contents(self) -> Contents:
        """Return the rows of every table at every snapshot that it has."""
        found: Contents = {}
        for name, identifier in self.names:
            table = self.catalogs[name].load_table(identifier)
            found[name, identifier[-1]] = {
                each.snapshot_id: rows_at(table, each.snapshot_id) for each in table.metadata.snapshots
            }
        return found

    def check(self, before: Contents) -> None:
        """Read every table at every snapshot that it still has, and compare; and find the file of every view."""
        for key, snapshots in self.contents().items():
            for snapshot, rows in snapshots.items():
                assert rows == before[key][snapshot], (key, snapshot, *self.log)
        for file in self.views:
            assert file.exists(), (file, *self.log)


def _hasten(connection: Any, _: object) -> None:
    connection.execute("PRAGMA synchronous = OFF")  # thousands of commits; no test of these stops the machine


def rows_at(table: Table, snapshot_id: int) -> list[int]:
    """Read the files that a snapshot names; no table here has deletes of rows."""
    files = [path_of(task.file.file_path) for task in table.scan(snapshot_id=snapshot_id).plan_files()]
    return sorted(row for file in files for row in pq.ParquetFile(file).read(["id"])["id"].to_pylist())


def path_of(location: str) -> Path:
    return Path("/" + location.removeprefix("file:").lstrip("/"))


def label(table: Any) -> str:
    return f"{table.catalog.name}.{table.name()[-1]}"
