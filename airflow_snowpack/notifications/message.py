"""The message to a receiver: what is new, and in a digest also what is open and what was resolved.

message = compose(news, digest=None, base_url="https://airflow.example.com")
message.title       # 'Snowpack: 2 new causes'
message.text        # a line for each cause, with the address of its page
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_snowpack.humanize import plural
from airflow_snowpack.notifications.causes import CauseKind
from airflow_snowpack.notifications.records import Notification

MOST_LINES = 20
"""How many causes of a kind a message has in full."""


@dataclass(frozen=True, slots=True)
class DigestPart:
    """What a digest adds to a message.

    :param headline: what maintenance did, in lines; empty for a receiver of some owners.
    """

    headline: str
    open: Sequence[Notification]
    resolved: Sequence[Notification]


@dataclass(frozen=True, slots=True)
class Message:
    """What a notifier receives as ``snowpack`` in its context.

    :param title: one line.
    :param text: plain text of several lines; escape it in HTML.
    :param causes: the new ones.
    :param is_digest: whether it has the digest, too.
    """

    title: str
    text: str
    causes: tuple[Notification, ...] = ()
    is_digest: bool = False


def compose(news: Sequence[Notification], digest: DigestPart | None, base_url: str) -> Message:
    """Return the message; ``base_url`` is the address of the pages, without ``/ui``."""
    title = f"Snowpack: {plural(len(news), 'new cause')}" if news else "Snowpack: daily digest"
    sections = [_section("", news, base_url)] if news else []
    if digest is not None:
        sections += [digest.headline] if digest.headline else []
        sections += [_section(f"Open: {plural(len(digest.open), 'cause')}.", digest.open, base_url)] if digest.open else []
        sections += [_section(f"Resolved: {plural(len(digest.resolved), 'cause')}.", digest.resolved)] if digest.resolved else []
    return Message(title, "\n\n".join(sections), tuple(news), digest is not None)


def _section(heading: str, causes: Sequence[Notification], base_url: str = "") -> str:
    return "\n".join([*([heading] if heading else []), *_lines(causes, base_url)])


def _lines(causes: Sequence[Notification], base_url: str) -> Iterator[str]:
    for kind in CauseKind:
        mine = [each for each in causes if each.kind is kind]
        for each in mine[:MOST_LINES]:
            over = " Resolved in the meantime." if each.resolved_at is not None and base_url else ""
            page = f" {base_url}/ui{each.path}" if base_url else ""
            yield f"- {kind.value}: {each.sentence}{over}{page}"
        if len(mine) > MOST_LINES:
            yield f"- {kind.value}: {plural(len(mine) - MOST_LINES, 'more cause', 'more causes')}."
