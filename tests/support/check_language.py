"""Fails on words that the project's glossary replaces: ``python tests/support/check_language.py [FILE …]``.

Without arguments it reads every tracked text that users or developers read: docs, templates and scripts of the pages, examples,
and the package with its messages, docstrings, comments and names. An underscore ends a word, so ``job_told`` is found too.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
READ = ("*.md", *(f"airflow_snowpack/*.{kind}" for kind in ("py", "pyi", "html", "js", "css")), "dags/*.py", "examples/*.py")

# What is banned, and what to write instead. Each is a whole word or phrase, in any case.
GLOSSARY = {
    r"tells?|told|telling": "report, return, log, show",
    r"says?|said|saying": "report, return, state; for options: pass --yes",
    r"stands?|stood|standing": "is, remains; explanation, reason",
    r"hears?|heard": "receive",
    r"knows? of": "track",
    r"looks at|looked at": "read, check, inspect",
    r"asks for|asked for|ask for": "request, requested",
    r"lets? go|letting go": "release",
    r"anew": "again, from scratch",
    r"mends?|mended|mending": "fix",
    r"whoever|somebody|someone|nobody": "any process that …, the process holding …, no process",
    r"in vain": "name the result: not met, not committed",
    r"at last": "until, at the latest",
    r"overtaken|overtakes?": "stale, superseded",
    r"gone by": "stale, elapsed",
    r"come of age": "expire",
    r"came of": "downstream tables",
    r"runs? dry|run dry": "dry run, preview",
    r"look before": "preview",
    r"hands? on|handed on|handing on": "pass to",
    r"gives? back|given back": "return",
    r"he|his|him": "name the role: the user, the worker",
}
# Names that others have chosen, or that stored rows and answers of the API already have.
ALLOWED = re.compile(r"""(def |\.)tell\b|"says"|`says`|\bsays[=:]""")
_BANNED = [(re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE), instead) for words, instead in GLOSSARY.items()]


def tracked_texts() -> list[Path]:
    """Return the files that the check reads, as Git tracks them, without migrations: those are never edited."""
    command = ["git", "ls-files", "-z", *READ, ":!airflow_snowpack/store/migrations"]
    listed = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return [REPOSITORY / name for name in listed.stdout.split("\0") if name]


def findings(path: Path) -> list[str]:
    """Return one line for each banned word of a file: where it is and what to write instead."""
    return [
        f"{path.relative_to(REPOSITORY)}:{number}: '{found.group()}' → {instead}"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        for banned, instead in _BANNED
        for found in banned.finditer(ALLOWED.sub("", line))
    ]


def main(arguments: list[str]) -> int:
    """Print the findings; 1 when there are any."""
    files = [Path(argument).resolve() for argument in arguments] or tracked_texts()
    found = [line for path in files for line in findings(path)]
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
