"""Reading columns of Avro files, in every form that the Avro specification allows and PyIceberg itself does not write."""

from __future__ import annotations

import io
import json
import random
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import Any, cast
from uuid import UUID

import pytest
from pyiceberg.avro.encoder import BinaryEncoder

from airflow_snowpack.iceberg import avro_columns
from airflow_snowpack.iceberg.avro_columns import AvroColumns, read_blocks
from airflow_snowpack.iceberg.avro_source import source_of
from airflow_snowpack.iceberg.avro_tails import FEWEST_LEARNED, FEWEST_ROWS, LONGEST, MOST_LEARNED, AvroTail
from airflow_snowpack.iceberg.read_once import KeptFile

Write = Callable[[BinaryEncoder], None]

SYNC = b"0123456789abcdef"
LOCATION = "s3://lake/m.avro"


def encoded(write: Write) -> bytes:
    """Return what the encoder writes."""
    stream = io.BytesIO()
    write(BinaryEncoder(stream))
    return stream.getvalue()


def avro(fields: list[dict[str, Any]], *rows: Write, codec: str = "null", sync: bytes = SYNC) -> KeptFile:
    """Return an Avro file with one block of these rows."""
    schema = json.dumps({"type": "record", "name": "entry", "fields": fields})
    block = b"".join(encoded(row) for row in rows)
    if codec == "deflate":
        block = zlib.compress(block)[2:-4]

    def write(encoder: BinaryEncoder) -> None:
        encoder.write(b"Obj\x01")
        encoder.write_int(2)
        for key, value in (("avro.schema", schema), ("avro.codec", codec)):
            encoder.write_utf8(key)
            encoder.write_utf8(value)
        encoder.write_int(0)
        encoder.write(SYNC)
        encoder.write_int(len(rows))
        encoder.write_bytes(block)
        encoder.write(sync)

    return KeptFile(LOCATION, encoded(write))


def read(file: KeptFile, *field_ids: int) -> list[tuple[Any, ...]]:
    """Return these columns of all rows."""
    return list(AvroColumns(field_ids).rows(read_blocks(file)))


def field(field_id: int, kind: Any) -> dict[str, Any]:
    """Return a field of a record."""
    return {"name": f"f{field_id}", "type": kind, "field-id": field_id}


def numbers(*values: int) -> Write:
    """Write whole numbers, one after the other."""
    return lambda encoder: [encoder.write_int(value) for value in values] and None


LAST = field(9, "long")
"""Is read correctly only if all before it was skipped correctly."""


def array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def pair(of: str) -> dict[str, Any]:
    return {"type": "record", "name": "pair", "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": of}]}


def test_columns_come_in_the_requested_order_and_missing_ones_are_none() -> None:
    file = avro([field(1, "int"), field(2, "long"), LAST], numbers(10, 20, 30), numbers(11, 21, 31))

    assert read(file, 9, 7, 1) == [(30, None, 10), (31, None, 11)]


def test_no_columns_are_as_many_empty_rows() -> None:
    assert read(avro([LAST], numbers(1), numbers(2))) == [(), ()]


@pytest.mark.parametrize(("union", "null"), [(["null", "long"], 0), (["long", "null"], 1)])
def test_null_may_be_either_branch_of_a_union(union: list[str], null: int) -> None:
    file = avro([field(1, union), LAST], numbers(null, 5), numbers(1 - null, 7, 6))

    assert read(file, 1, 9) == [(None, 5), (7, 6)]
    assert read(file, 9) == [(5,), (6,)]


def test_a_union_of_several_types_is_read_and_skipped() -> None:
    def text(encoder: BinaryEncoder) -> None:
        encoder.write_int(2)
        encoder.write_utf8("été")
        encoder.write_int(2)

    file = avro([field(1, ["null", "long", "string"]), LAST], numbers(1, 7, 1), text)

    assert read(file, 1, 9) == [(7, 1), ("été", 2)]
    assert read(file, 9) == [(1,), (2,)]


@pytest.mark.parametrize("items", ["long", pair("long"), pair("bytes"), "string", array("int")], ids=str)
def test_arrays_are_skipped_in_blocks_with_and_without_their_size(items: Any) -> None:
    def write_item(encoder: BinaryEncoder) -> None:
        if items in ("long", "string"):
            encoder.write_int(3) if items == "long" else encoder.write_utf8("abc")
        elif items == array("int"):
            numbers(1, 4, 0)(encoder)
        else:
            encoder.write_int(1)
            encoder.write_int(2) if items == pair("long") else encoder.write_bytes(b"xyz")

    def row(encoder: BinaryEncoder) -> None:
        encoder.write_int(2)
        write_item(encoder)
        write_item(encoder)
        one = encoded(write_item)
        numbers(-1, len(one))(encoder)
        encoder.write(one)
        encoder.write_int(1)
        write_item(encoder)
        numbers(0, 42)(encoder)

    file = avro([field(1, array(items)), LAST], row, row)

    assert read(file, 9) == [(42,), (42,)]
    assert [len(values) for values, _ in read(file, 1, 9)] == [4, 4]


def test_a_map_of_statistics_is_read_as_pairs() -> None:
    def row(encoder: BinaryEncoder) -> None:
        numbers(1, 2, 100)(encoder)
        encoder.write_bytes(b"low")
        encoder.write_int(101)
        encoder.write_bytes(b"")
        encoder.write_int(0)

    assert read(avro([field(1, ["null", array(pair("bytes"))])], row), 1) == [([(100, b"low"), (101, b"")],)]


def test_partition_values_are_what_pyiceberg_reads() -> None:
    kinds = [
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        {"type": "fixed", "name": "d", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1},
        {"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"},
        {"type": "fixed", "name": "b", "size": 3},
        "boolean",
        "double",
        "float",
        {"type": "int", "logicalType": "date"},
    ]
    known = UUID("6b1f8e4c-6a5e-4a6f-9a51-8f8c2b1d9e00")

    def row(encoder: BinaryEncoder) -> None:
        encoder.write_bytes((-12345).to_bytes(3, "big", signed=True))
        encoder.write((77).to_bytes(2, "big", signed=True))
        encoder.write(known.bytes)
        encoder.write(b"abc")
        encoder.write_boolean(True)
        encoder.write_double(float("nan"))
        encoder.write_float(0.5)
        encoder.write_int(20_000)
        encoder.write_int(1)

    record = {"type": "record", "name": "r", "fields": [field(1000 + place, kind) for place, kind in enumerate(kinds)]}
    file = avro([field(102, record), LAST], row, row)

    (values, last), (again, _) = read(file, 102, 9)
    assert values == (Decimal("-123.45"), Decimal("7.7"), known, b"abc", True, values[5], 0.5, 20_000)
    assert values[5] != values[5]
    assert (again, last) == (values, 1)
    assert {values: 1}[again] == 1, "NaN is the same key in each row"
    assert read(file, 9) == [(1,), (1,)]


def test_a_fixed_type_is_written_once_and_named_afterwards() -> None:
    """As Iceberg for Java has the second decimal or UUID of a partition."""
    decimal = {"type": "fixed", "name": "decimal_4_1", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 1}
    kinds = [["null", decimal], ["null", "decimal_4_1"]]
    record = {"type": "record", "name": "r", "fields": [field(1000 + place, kind) for place, kind in enumerate(kinds)]}
    file = avro([field(102, record), field(8, "decimal_4_1"), LAST], lengths(1, b"\x00\x4d", 1, b"\x00\x0c", b"zz", 42))

    assert read(file, 102, 9) == [((Decimal("7.7"), Decimal("1.2")), 42)]
    assert read(file, 9) == [(42,)]


def test_a_double_is_not_rounded_to_a_float() -> None:
    record = {"type": "record", "name": "r", "fields": [field(1000, "double")]}
    file = avro([field(102, record)], lambda encoder: encoder.write_double(1.1), lambda encoder: encoder.write_double(1e300))

    assert read(file, 102) == [((1.1,),), ((1e300,),)]


def test_zeros_of_both_signs_are_different_partition_values() -> None:
    record = {"type": "record", "name": "r", "fields": [field(1000, "double")]}
    file = avro([field(102, record), LAST], *(zero_row(zero) for zero in (0.0, -0.0, -0.0)))

    (zero, _), (negative, _), (again, _) = read(file, 102, 9)

    assert {zero: "zero", negative: "negative"} == {zero: "zero", again: "negative"}
    assert (str(zero[0]), str(negative[0])) == ("0.0", "-0.0")


def zero_row(zero: float) -> Callable[[BinaryEncoder], None]:
    def row(encoder: BinaryEncoder) -> None:
        encoder.write_double(zero)
        encoder.write_int(1)

    return row


def test_compressed_blocks_are_read() -> None:
    assert read(avro([LAST], numbers(7), codec="deflate"), 9) == [(7,)]


@pytest.mark.parametrize(
    "damaged",
    [
        KeptFile(LOCATION, b"PAR1 is not Avro"),
        KeptFile(LOCATION, b""),
        KeptFile(LOCATION, avro([LAST], numbers(1))._content[:-20]),
        avro([LAST], numbers(1), sync=b"fedcba9876543210"),
        avro([LAST], numbers(1), codec="lzma"),
        avro([field(1, ["null", "long"]), LAST], numbers(5, 1)),
        avro([field(1, {"type": "map", "values": "long"}), LAST], numbers(0, 1)),
        avro([LAST, LAST], numbers(1)),
        avro([LAST], numbers(1, 2)),
        avro([field(1, array("long")), LAST], numbers(2**30, 1)),
        KeptFile(LOCATION, avro([LAST], numbers(1))._content.replace(b"null", b"zstd").replace(b"zstd", b"\x00" * 4)),
    ],
    ids=[
        *("another format", "empty", "cut off", "sync marker", "codec", "branch", "type", "too short", "too long"),
        *("too many items", "name of a codec"),
    ],
)
def test_a_damaged_file_is_an_error_that_names_it(damaged: KeptFile) -> None:
    with pytest.raises(ValueError, match=f"{LOCATION} is not a valid Avro file: "):
        read(damaged, 9, 1)


def lengths(*values: int | bytes) -> Write:
    """Write whole numbers and bytes as they are."""

    def write(encoder: BinaryEncoder) -> None:
        for value in values:
            if isinstance(value, bytes):
                encoder.write(value)
            else:
                encoder.write_int(value)

    return write


@pytest.mark.parametrize("column", [1, 9], ids=["read", "skipped"])
@pytest.mark.parametrize("length", [100, 2**40, 2**62, -1, -(2**40)])
@pytest.mark.parametrize(
    ("kind", "before"),
    [("string", ()), ("bytes", ()), (array("bytes"), (1,)), (array(pair("bytes")), (1, 7)), (array("string"), (-1,))],
    ids=str,
)
def test_a_length_never_leads_out_of_the_block(kind: Any, before: tuple[int, ...], length: int, column: int) -> None:
    with pytest.raises(ValueError, match=f"{LOCATION} is not a valid Avro file: "):
        read(avro([field(1, kind), LAST], lengths(*before, length, b"abc", 0, 5)), column)


@pytest.mark.parametrize("count", [1_000, 2**40, 2**62, -(2**62)])
@pytest.mark.parametrize("items", ["long", "bytes", "double", {"type": "record", "name": "e", "fields": []}], ids=str)
@pytest.mark.parametrize("column", [1, 9], ids=["read", "skipped"])
def test_an_array_never_has_more_items_than_the_block_has_bytes(items: Any, count: int, column: int) -> None:
    with pytest.raises(ValueError, match=f"{LOCATION} is not a valid Avro file: "):
        read(avro([field(1, array(items)), LAST], lengths(count, 3, 0, 5)), column)


@pytest.mark.parametrize("count", [2, 2**62, -1])
def test_a_block_never_has_more_rows_than_bytes(count: int) -> None:
    file = read_blocks(avro([], numbers(1)))
    file.blocks[0] = (count, b"\x02")

    with pytest.raises(ValueError, match=f"a block has {count} rows"):
        list(AvroColumns((9,)).rows(file))


def test_any_flipped_bit_is_refused_or_reads_as_some_rows() -> None:
    record = {"type": "record", "name": "r", "fields": [field(1000, ["null", "string"]), field(1001, "double")]}
    fields = [field(1, "string"), field(102, record), field(2, ["null", array(pair("bytes"))]), field(3, array("long")), LAST]
    row = lengths(3, b"abc", 1, 2, b"DE", b"12345678", 1, 1, 7, 4, b"\x90\x01zz", 0, 2, 5, 6, 0, 42)
    content, chosen = avro(fields, row, row, row)._content, random.Random(18)
    refused: list[str] = []

    for place in chosen.sample(range(len(content) * 8), 600):
        damaged = bytearray(content)
        damaged[place // 8] ^= 1 << place % 8
        try:
            rows = list(AvroColumns((9, 102), required=(9, 102)).rows(read_blocks(KeptFile(LOCATION, bytes(damaged)))))
        except ValueError as error:
            refused.append(str(error))
        else:
            assert len(rows) == 3
            assert all(isinstance(last, int) and len(values) == 2 for last, values in rows)

    assert 50 < len(refused) < 550
    assert all(reason.startswith(f"{LOCATION} is not a valid Avro file: ") for reason in refused)


STATISTICS = [
    LAST,
    field(1, array(pair("long"))),
    field(2, ["null", array(pair("bytes"))]),
    field(3, ["null", "double", "string"]),
    field(4, {"type": "fixed", "name": "four", "size": 4}),
    field(5, array({"type": "record", "name": "r", "fields": [field(6, "boolean"), field(7, "float"), field(8, "long")]})),
]


def like_others(number: int, chance: random.Random) -> Write:
    """Write a row with the columns that other rows have, other numbers, and bounds of a few lengths."""
    texts = [chance.randbytes(chance.choice((0, 8, 70))) for _ in range(2)]
    sizes = [chance.choice((1, 300, -7, 2**40)) for _ in range(3)]
    bounds = [part for column, text in enumerate(texts) for part in (column, len(text), text)]
    return lengths(
        *(number, 3, 1, sizes[0], 2, sizes[1], 4, sizes[2], 0),
        *(1, 2, *bounds, 0, 1, chance.randbytes(8), chance.randbytes(4)),
        *(1, chance.randbytes(5), sizes[0], 0),
    )


def unlike_others(number: int, chance: random.Random) -> Write:
    """Write a row with other columns, other branches, and a block with its size."""
    return lengths(number, 1, 9, 5, -1, 2, 3, 8, 0, 0, 2, 3, chance.randbytes(3), chance.randbytes(4), 0)


def many_rows(seed: int) -> list[Write]:
    chance = random.Random(seed)
    return [(unlike_others if chance.random() < 0.1 else like_others)(number, chance) for number in range(FEWEST_ROWS)]


def test_many_rows_are_read_whether_or_not_they_are_like_the_ones_before() -> None:
    rows = many_rows(1)

    assert read(avro(STATISTICS, *rows), 9) == [(number,) for number in range(len(rows))]


def test_the_pattern_of_some_rows_ends_where_others_like_them_end() -> None:
    chance = random.Random(2)
    tail = AvroTail([each["type"] for each in STATISTICS])
    for _ in range(4 * FEWEST_LEARNED):
        match = tail.learn(encoded(like_others(7, chance)), 0)
    assert match is not None

    for _ in range(100):
        like, unlike = encoded(like_others(7, chance)), encoded(unlike_others(7, chance))
        found = match(like + like, 0)
        assert found is not None
        assert found.end() == len(like)
        assert match(unlike + like, 0) is None


def test_rows_that_are_never_alike_get_no_further_pattern() -> None:
    chance, tail = random.Random(3), AvroTail([array("long")])
    rows = [encoded(numbers(count, *range(count), 0)) for count in range(1, 500)]
    chance.shuffle(rows)

    matches = [tail.learn(row, 0) for row in rows]

    assert matches[: FEWEST_LEARNED - 1] == [None] * (FEWEST_LEARNED - 1)
    assert len(set(map(id, matches))) == 1 + (MOST_LEARNED // FEWEST_LEARNED).bit_length()
    assert len(set(map(id, matches[MOST_LEARNED:]))) == 1


def test_rows_of_very_many_columns_get_no_pattern() -> None:
    def row(columns: int) -> bytes:
        return encoded(numbers(columns, *(number for column in range(columns) for number in (column, 1)), 0))

    tail, wide, wider = AvroTail([array(pair("long"))]), row(100), row(LONGEST // 20)

    assert [tail.learn(wide, 0) is None for _ in range(FEWEST_LEARNED)] == [True, True, True, False]
    assert [tail.learn(wider, 0) for _ in range(FEWEST_LEARNED)][-1] is None


def test_many_damaged_rows_are_read_or_refused_as_they_are_without_a_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    content, chance = avro(STATISTICS, *many_rows(4))._content, random.Random(5)

    def outcome(damaged: bytes) -> object:
        try:
            return read(KeptFile(LOCATION, damaged), 9)
        except ValueError as error:
            return str(error)

    damaged = [bytearray(content) for _ in range(30)]
    for each in damaged:
        each[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    with_pattern = [outcome(bytes(each)) for each in damaged]
    monkeypatch.setattr(avro_columns, "FEWEST_ROWS", 10 * FEWEST_ROWS)
    assert with_pattern == [outcome(bytes(each)) for each in damaged]
    assert 2 < sum(isinstance(each, str) for each in with_pattern) < 28


@pytest.mark.parametrize("fields", [[field(1, "long")], [field(9, ["null", "long"])]], ids=["missing", "null"])
def test_a_required_column_that_is_not_there_is_an_error(fields: list[dict[str, Any]]) -> None:
    with pytest.raises(ValueError, match=f"{LOCATION} is not a valid Avro file: "):
        list(AvroColumns((9,), required=(9,)).rows(read_blocks(avro(fields, numbers(0)))))


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "record"',
        json.dumps({"fields": [field(1, reduce(lambda kind, _: array(kind), range(30), cast("Any", "string")))]}),
        "[" * 100_000,
        "7",
        '{"type": "record", "name": "e", "fields": [{"name": "f", "type": {"type": "fixed", "size": "read(9)"}}]}',
        '{"type": "record", "name": "e", "fields": [{"name": "f", "type": {"type": "fixed", "size": 1e400}}]}',
        json.dumps({"fields": [field(1, {"type": "__import__('os').abort()"})]}),
    ],
    ids=["cut off", "arrays in arrays", "nested too deep", "no record", "size", "infinite size", "code as a type"],
)
def test_a_schema_that_is_not_one_is_an_error_that_names_the_file(schema: str) -> None:
    file = read_blocks(avro([LAST], numbers(1)))
    file.schema = schema

    with pytest.raises(ValueError, match=f"{LOCATION} is not a valid Avro file: "):
        list(AvroColumns((9,)).rows(file))


def test_names_and_texts_of_a_schema_never_get_into_the_compiled_source() -> None:
    def schema(text: str) -> str:
        named = {"name": text, "doc": text, "default": text, "aliases": [text], "namespace": text, text: text}
        kinds = [
            {"type": "fixed", "size": 4, "logicalType": text, **named},
            {"type": "bytes", "logicalType": "decimal", "scale": 2, "precision": text, **named},
            {"type": "array", "items": {"type": "record", "fields": [{"type": "string", **named}], **named}, **named},
            {"type": "record", "fields": [{"type": ["null", "double"], "field-id": text, **named}], **named},
        ]
        fields = [{"type": kind, "field-id": place, **named} for place, kind in enumerate([*kinds, *kinds])]
        return json.dumps({"type": "record", "fields": fields, **named})

    hostile = "x')\n__import__('os').abort()  # \\"

    assert source_of(schema(hostile), (0, 1, 2, 3)) == source_of(schema("harmless"), (0, 1, 2, 3))
