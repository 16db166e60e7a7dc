"""Random predicates for the table of :mod:`conditions`: of the grammar that the check accepts, and with something in them that it
refuses."""

from __future__ import annotations

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.sampled_from(
        ["p", "`two words`", "order", "2nd", "place.zip", "ratio", "places[0].zip", "1.5", ".5", "2e3", "7L", "1.5BD"]
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(
        ["length(name)", "abs(-p)", "coalesce(p, 3)", "year(day)", "extract(DAY FROM at)", "CAST('5' AS INT)", "p::double"]
    ),
    st.sampled_from(
        ["datediff(day, DATE '2026-01-31')", "datediff(HOUR, at, at)", "pmod(p, 7)", "CASE WHEN late THEN 1 ELSE p END"]
    ),
)
LETTERS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8)
TEXTS = st.one_of(
    st.sampled_from(
        ["name", "place.City", "tags['a']", "lower(name)", "name || 'x'", "trim(TRAILING 'x' FROM name)", "r'\\'", '"x"']
    ),
    LETTERS.filter(lambda text: "${" not in text).map(
        lambda text: "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
    ),
)
DAYS = st.dates().map(str)
MOMENTS = st.one_of(
    st.sampled_from(
        ["day", "at", "date", "current_date()", "current_timestamp", "date_trunc('DAY', at)", "at - INTERVAL 3 DAYS"]
    ),
    DAYS.map(lambda day: f"DATE '{day}'"),
    st.datetimes().map(lambda moment: f"TIMESTAMP '{moment}'"),
    st.builds("CAST('{} 10:{:02}:00' AS TIMESTAMP)".format, DAYS, st.integers(0, 59)),
)
COMPARISON = st.sampled_from(["=", "==", "<=>", "<>", "!=", "<", "<=", ">", ">="])


def _compared(values: st.SearchStrategy[str], texts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Comparisons of values of one kind with each other, and of its columns with texts."""
    either = st.one_of(values, texts)
    return st.one_of(
        st.builds("{} {} {}".format, values, COMPARISON, either),
        st.builds("{} {} {}".format, texts, COMPARISON, values),
        st.builds(
            "{} {}IN ({})".format, values, st.sampled_from(["", "NOT "]), st.lists(either, min_size=1, max_size=4).map(", ".join)
        ),
        st.builds("{} {}BETWEEN {} AND {}".format, values, st.sampled_from(["", "NOT "]), either, either),
        st.builds("{} IS {}NULL".format, values, st.sampled_from(["", "NOT "])),
        st.builds("{} IS DISTINCT FROM {}".format, values, values),
    )


TERMS = st.one_of(
    _compared(NUMBERS, st.integers(-(2**31), 2**31 - 1).map(lambda number: f"' {number}'")),
    _compared(MOMENTS, DAYS.map(lambda day: f"'{day}'")),
    _compared(TEXTS, TEXTS),
    st.builds("name {}LIKE {}".format, st.sampled_from(["", "NOT "]), st.sampled_from(["'a%'", "'%a%'", "'a_\\%'", "''"])),
    st.sampled_from(["late", "!late", "true", "late IS NOT TRUE", "late = 'yes'", "lake.system.bucket(16, p) = 3"]),
    DAYS.map(lambda day: f"lake.system.days(at) >= DATE '{day}'"),
)
CONDITIONS = st.recursive(
    TERMS,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("{} OR {}".format, inner, inner),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=5,
)
"""Predicates that a rewrite can have."""

UNKNOWN = [
    "reflect",
    "java_method",
    "repeat",
    "space",
    "lpad",
    "rpad",
    "rand",
    "uuid",
    "sequence",
    "input_file_name",
    "regexp_like",
]
UNKNOWN += [
    "current_user",
    "version",
    "read_files",
    "my_udf",
    "`reflect`",
    "system.builtin.reflect",
    "lake.system.iceberg_version",
]
FAULTS = st.one_of(
    st.sampled_from(UNKNOWN).map(lambda name: f"{name}('a') = name"),
    st.builds(
        "name = '{}${{{}:{}}}'".format,
        LETTERS.map(lambda text: text.replace("'", "")),
        st.sampled_from(["env", "system"]),
        LETTERS,
    ),
    st.builds("{} {} '2026-{}-01'".format, st.sampled_from(["day", "at"]), COMPARISON, st.integers(13, 99)),
    st.integers(41, 3_000).map(lambda depth: f"{'(' * depth}late{')' * depth}"),
    st.integers(101, 3_000).map(lambda length: f"{'NOT ' * length}late"),
    st.sampled_from(
        [
            "p = \N{FULLWIDTH DIGIT THREE}",
            "p = 'x'",
            "p = true",
            "late = 1",
            "nope = 1",
            "p = 1 --",
            "/* */ late",
            "p = (SELECT 1)",
            "p = 1; p",
        ]
    ),
)


ZONES = [
    "",
    "Z",
    " UTC",
    "UT",
    "GMT+1",
    "UTC-01:30",
    "+1:2:3",
    "-0800",
    "+010203",
    " Europe/Berlin",
    "EST",
    "CST",
    "PST8PDT",
    "Mars/X",
]
TIME = r"[0-9]{0,3}(:[0-9]{0,3}(:[0-9]{0,3}(\.[0-9]{0,9})?)?)?"
MOMENT = rf"[+-]?[0-9]{{3,7}}(-[0-9]{{1,3}}(-[0-9]{{1,3}}([ Tt]{TIME})?)?)?|T?{TIME}"
NUMBER = r"[+-]?([0-9]{0,20}\.?[0-9]{0,5}([eE][+-]?[0-9]{0,3})?[dDfFL]?|nan|NaN|inf|Infinity)"
SPACES = st.sampled_from(["", "", "", " ", "\t", "\x1f", "\N{NO-BREAK SPACE}"])
VALUES = st.builds(
    "{}{}{}{}".format,
    SPACES,
    st.one_of(
        *(st.from_regex(form, fullmatch=True) for form in (MOMENT, NUMBER)),
        st.sampled_from(["t", "Yes", "no", "FALSE", "0", "maybe"]),
    ),
    st.sampled_from(ZONES),
    SPACES,
)
"""Texts that Spark may cast to a truth value, a number, a date or a moment."""


@st.composite
def faulty_conditions(draw: st.DrawFn) -> str:
    """Predicates with something in some place that may not be there."""
    fault, before, after = draw(FAULTS), draw(CONDITIONS), draw(CONDITIONS)
    shape = draw(
        st.sampled_from(
            ["{fault}", "{before} AND {fault}", "{fault} OR {after}", "CASE WHEN {fault} THEN {after} ELSE {before} END"]
        )
    )
    return shape.format(fault=fault, before=before, after=after)


@st.composite
def mutated_conditions(draw: st.DrawFn) -> str:
    """Predicates with words, quotes, signs of comments and a call that is not allowed in any place."""
    text = draw(CONDITIONS)
    call = "reflect('java.lang.System', 'getenv', 'HOME') = name"
    pieces = [
        "'",
        '"',
        "`",
        "\\",
        "r'",
        "--",
        "\r",
        "\n",
        "/*",
        "*/",
        "/*+",
        "''",
        "$$",
        "\u00a0",
        ")",
        "(",
        " OR ",
        call,
        f" OR {call}",
        *(" AND ", " NOT ", " DAYS ", " TO ", " FROM ", " IN ", " x ", " 1 ", "::", "[", "."),
    ]
    for piece in draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=5)):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + piece + text[place:]
    return text
