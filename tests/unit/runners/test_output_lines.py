"""The output of an entry becomes lines with levels, whatever its bytes are."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from airflow_snowpack.runners.invocation import OutputLine
from airflow_snowpack.runners.output_lines import MAX_LINE_BYTES, OutputLines, Stream

MARK = "\x1e0123\x1e"


def lines_of(*parts: bytes, stream: Stream = Stream.STDOUT, mark: str | None = None) -> list[OutputLine]:
    found: list[OutputLine] = []
    lines = OutputLines(found.append, mark)
    for part in parts:
        lines.feed(stream, part)
    lines.close()
    return found


def texts_of(*parts: bytes) -> list[str]:
    return [line.text for line in lines_of(*parts)]


def record(**changed: Any) -> bytes:
    return MARK.encode() + json.dumps({"level": 30, "logger": "acme", "text": "slow", **changed}).encode() + b"\n"


def test_stdout_is_information_and_stderr_an_error() -> None:
    found: list[OutputLine] = []
    lines = OutputLines(found.append)
    lines.feed(Stream.STDERR, b"oh ")
    lines.feed(Stream.STDOUT, b"fine\n")
    lines.feed(Stream.STDERR, b"no\n")
    assert found == [OutputLine("fine", logging.INFO), OutputLine("oh no", logging.ERROR)]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_each_end_of_line_ends_one_line_wherever_the_parts_are_cut(end: bytes) -> None:
    data = b"one" + end + b"two" + end + end + b"four"
    whole = texts_of(data)
    assert whole == ["one", "two", "", "four"]
    assert all(texts_of(data[:place], data[place:]) == whole for place in range(len(data)))


def test_a_character_that_two_reads_share_arrives_whole() -> None:
    data = "Grüße, 日本\n".encode()
    assert all(texts_of(data[:place], data[place:]) == ["Grüße, 日本"] for place in range(len(data)))


def test_what_is_not_text_is_replaced_and_controls_are_written_out() -> None:
    assert texts_of(b"a\xff\x00b\x07\tc\x1b[31m\n") == ["a\ufffd\\x00b\\x07\tc\x1b[31m"]
    clipboard, cursor, c1 = "\x1b]52;c;cm0gLXJm\x07", "\x1b[2A", "\x9b2A"
    assert texts_of(f"{clipboard}{cursor}{c1}\n".encode()) == ["\\x1b]52;c;cm0gLXJm\\x07\\x1b[2A\\x9b2A"]


def test_a_line_without_an_end_is_cut_and_counted_and_not_kept() -> None:
    found: list[OutputLine] = []
    lines = OutputLines(found.append)
    for _ in range(1000):
        lines.feed(Stream.STDOUT, b"x" * 1000)
    assert found == []
    assert sum(len(line.data) for line in lines._unfinished.values()) == MAX_LINE_BYTES
    lines.feed(Stream.STDOUT, b"\nnext\n")
    assert [line.text for line in found] == ["x" * MAX_LINE_BYTES + "… (983,616 more bytes in this line)", "next"]


def test_a_record_keeps_its_level_its_logger_and_its_lines() -> None:
    assert lines_of(record(text="slow\nvery"), stream=Stream.STDERR, mark=MARK) == [OutputLine("slow\nvery", 30, "acme")]


def test_a_record_can_be_stored_whatever_its_text_is() -> None:
    [line] = lines_of(record(text="a\ud800\0\n\x1b[1mb", logger="x\udfff"), mark=MARK)
    assert line == OutputLine("a?\\x00\n\x1b[1mb", 30, "x?")
    assert line.text.encode()


def test_a_record_after_an_unfinished_line_does_not_swallow_it() -> None:
    assert lines_of(b"loading..." + record(), stream=Stream.STDERR, mark=MARK) == [
        OutputLine("loading...", logging.ERROR),
        OutputLine("slow", 30, "acme"),
    ]


@pytest.mark.parametrize(
    "forged",
    [
        MARK.encode() + b"not json\n",
        MARK.encode() + b"[1]\n",
        MARK.encode() + b"[" * 100_000 + b"\n",
        MARK.encode() + b'{"level": 40}\n',
        record(level="ERROR"),
        record(level=True),
        record(logger=None),
    ],
)
def test_a_program_that_prints_the_mark_has_written_a_line_like_any_other(forged: bytes) -> None:
    [line] = lines_of(forged, mark=MARK)
    assert (line.level, line.logger) == (logging.INFO, None)
    assert line.text.startswith("\\x1e0123\\x1e")


def test_a_level_out_of_range_is_the_nearest_one() -> None:
    levels = [line.level for line in lines_of(record(level=-5), record(level=5000), mark=MARK)]
    assert levels == [logging.DEBUG, logging.CRITICAL]


def test_without_a_mark_json_is_text() -> None:
    assert [line.logger for line in lines_of(record())] == [None]


def test_a_record_that_is_too_long_is_a_cut_line() -> None:
    [line] = lines_of(record(text="x" * 500_000), mark=MARK)
    assert line.logger is None
    assert "more bytes in this line" in line.text
