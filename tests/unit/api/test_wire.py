"""One description of a resource is its JSON, its schema and its columns: here for a resource that the package does not have."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from airflow_snowpack.jobs import JobStatus
from airflow_snowpack.wire.listing import Column, Elapsed, Listing, cut
from airflow_snowpack.wire.shape import From, Moment, Shape, page_shape
from airflow_snowpack.wire.tone import WORDS, Tone, tone_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class Colour(StrEnum):
    RED = "red"


@dataclass
class Wing:
    length: timedelta


@dataclass
class Bird:
    name: str
    colour: Colour
    wings: tuple[Wing, ...]
    hatched_at: datetime
    left_at: datetime | None = None


class WingShape(Shape):
    seconds: Annotated[float, From("length")]


class BirdShape(Shape):
    """A bird."""

    name: str = Field(description="Its name.")
    colour: Colour
    wings: list[WingShape]
    first_wing: Annotated[WingShape | None, From(lambda bird: bird.wings[0])]
    hatched_at: Moment
    left_at: Moment
    rank: int


BIRD = Bird("Ada", Colour.RED, (Wing(timedelta(seconds=2)),), NOW - timedelta(hours=3))
BIRDS: Listing[Bird] = Listing(
    "birds",
    lambda bird: BirdShape.encode(bird, rank=1),
    (
        Column("bird", "name", state=lambda bird: "failed" if bird.left_at is None else "ready"),
        Column("colour", "colour", lambda bird: (bird.colour, bird.hatched_at)),
        Column("hatched", "hatched_at"),
        Column("stayed", lambda bird: Elapsed(bird.hatched_at, bird.left_at)),
        Column("wings", lambda bird: len(bird.wings) * 1_000),
    ),
)


def test_a_shape_writes_the_json_that_its_schema_describes() -> None:
    body = BirdShape.encode(BIRD, rank=7)

    assert body == {
        "name": "Ada",
        "colour": "red",
        "wings": [{"seconds": 2.0}],
        "first_wing": {"seconds": 2.0},
        "hatched_at": "2026-11-21T09:00:00.000000+00:00",
        "left_at": None,
        "rank": 7,
    }
    schema = BirdShape.model_json_schema()
    assert schema["properties"].keys() == body.keys()
    assert schema["properties"]["name"]["description"] == "Its name."
    assert schema["additionalProperties"] is False
    BirdShape.model_validate(body, strict=False)


def test_a_listing_writes_a_page_of_json() -> None:
    shown, next_ = cut([BIRD, BIRD], 1, lambda bird: bird.name)

    page = BIRDS.page(shown, next_, age=3)
    assert (list(page), len(page["birds"]), page["age"], page["next"]) == (["birds", "age", "next"], 1, 3, "Ada")
    assert cut([BIRD], 1, lambda bird: bird.name) == ([BIRD], None)


def test_programs_read_exact_values_and_people_read_formatted_ones() -> None:
    programs = [column.for_programs(BIRD, NOW) for column in BIRDS.columns]
    people = [column.for_people(BIRD, NOW) for column in BIRDS.columns]

    assert programs == ["Ada", "red", "2026-11-21T09:00:00.000000+00:00", 10_800.0, 1_000]
    assert people == ["Ada", "red 3 h ago", "3 h ago", "3 h", "1,000"]


def test_a_column_has_the_tone_of_its_state() -> None:
    assert [column.tone(BIRD) for column in BIRDS.columns] == [Tone.BAD, None, None, None, None]
    assert BIRDS.columns[0].tone(replace(BIRD, left_at=NOW)) is Tone.GOOD


def test_a_state_has_one_tone() -> None:
    words = [word for tone in WORDS.values() for word in tone.split()]

    assert len(words) == len(set(words))
    assert [tone_of(status) for status in JobStatus] == [Tone.NEUTRAL, Tone.ACTIVE, Tone.GOOD, Tone.BAD, Tone.NEUTRAL]


def test_a_page_of_a_list_has_its_schema() -> None:
    shape = page_shape("BirdsShape", "Birds by name.", "birds", BirdShape, int)

    schema = shape.model_json_schema()
    assert (schema["title"], schema["description"], schema["required"]) == ("BirdsShape", "Birds by name.", ["birds", "next"])
    assert schema["properties"]["next"]["description"] == "The `cursor` of the next page."
    shape.model_validate(BIRDS.page([BIRD], 7), strict=False)
