"""Tones: how good or bad a state is. The pages and the command line choose its colour from its tone alone.

tone_of(JobStatus.FAILED)      # Tone.BAD
"""

from collections.abc import Mapping
from enum import StrEnum


class Tone(StrEnum):
    """How good or bad a state is, or that something is going on."""

    NEUTRAL = "neutral"
    ACTIVE = "active"
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


WORDS: Mapping[Tone, str] = {
    Tone.ACTIVE: "running building writing deleting started submitted pending_launch triggered requested repair run working",
    Tone.GOOD: "completed succeeded success ready healthy enabled current publish launched maintained deleted restored",
    Tone.WARNING: "partial conflict fair awaiting_approval quarantined left_out unpushed lost pending_constraint launch_waits "
    "absorbed launched_while_changed ticks_missed rollback gone",
    Tone.BAD: "failed unreadable sick discarded timed_out",
}
"""The states of each tone, the same for every resource. Any other state is neutral."""
TONES = {word: tone for tone, words in WORDS.items() for word in words.split()}


def tone_of(state: str) -> Tone:
    """Return the tone of a state, an outcome or an event."""
    return TONES.get(state, Tone.NEUTRAL)
