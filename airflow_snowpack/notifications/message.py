"""The message to a receiver: what is new, and in a digest also what is open and what was resolved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from airflow_snowpack.humanize import plural
from airflow_snowpack.notifications.causes import CauseKind
from airflow_snowpack.notifications.records import Notification

MOST_LINES = 20
"""How many causes of a kind a section has in full."""
MOST_CHARACTERS = 10_000
"""Of a text: a receiver that refuses a long message would refuse it again and again."""
CUT = "… The pages have the rest."


@dataclass(frozen=True, slots=True)
class Message:
    """What a notifier receives as ``snowpack`` in its context.

    :param title: one line.
    :param text: plain text of several lines, at most :data:`MOST_CHARACTERS`; escape it in HTML.
    :param causes: the new ones.
    :param is_digest: whether it has the digest, too.
    """

    title: str
    text: str
    causes: tuple[Notification, ...]
    is_digest: bool

    @classmethod
    def compose(
        cls, news: Sequence[Notification], digest: Sequence[Notification] | None, headline: str, base_url: str
    ) -> Message:
        """Return the message with these new causes.

        :param digest: the other causes that are open, or were resolved since the last digest; ``None`` for no digest.
        :param headline: what maintenance did, for a digest; may be empty.
        :param base_url: the address of the pages, without ``/ui``.
        """
        parts = [[*_lines(news, base_url)], [headline]]
        for label, is_over in (("Open", False), ("Resolved", True)):
            if some := [each for each in digest or () if (each.resolved_at is not None) is is_over]:
                parts.append([f"{label}: {plural(len(some), 'cause')}.", *_lines(some, base_url)])
        title = f"Snowpack: {plural(len(news), 'new cause')}" if news else "Snowpack: daily digest"
        text = "\n\n".join("\n".join(lines) for lines in parts if any(lines))
        if len(text) > MOST_CHARACTERS:
            text = "\n".join((text[: MOST_CHARACTERS - len(CUT)].rpartition("\n")[0], CUT))
        return cls(title, text, tuple(news), digest is not None)


def _lines(causes: Sequence[Notification], base_url: str) -> Iterator[str]:
    for kind in CauseKind:
        mine = [each for each in causes if each.kind is kind]
        for each in mine[:MOST_LINES]:
            over = " Resolved in the meantime." if each.resolved_at is not None and each.notified_at is None else ""
            yield f"- {kind.value}: {each.sentence}{over} {base_url}/ui{each.path}"
        if len(mine) > MOST_LINES:
            yield f"- {kind.value}: {plural(len(mine) - MOST_LINES, 'more cause', 'more causes')}."
