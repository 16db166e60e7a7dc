"""Text that both databases take, whoever wrote it."""

from __future__ import annotations


def storable(text: str) -> str:
    """The text without what a database refuses: an error message must never be what keeps a job from ending.

    Postgres takes no NUL in a text, and neither database takes half of a surrogate pair. What is looked up goes through here as
    well: nothing that is stored has such a character, so nothing is found.
    """
    return text.replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")
