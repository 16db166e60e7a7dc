"""The menu of the pages: five groups, in the order in which people look for something."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A page of the menu.

    :param key: pressed after ``g``, it opens the page.
    :param templates: of the page and of the pages below it.
    """

    label: str
    address: str
    key: str
    templates: frozenset[str]


@dataclass(frozen=True, slots=True)
class Group:
    """An item of the menu. It opens its first page, and lists the others while one of them is open."""

    label: str
    places: tuple[Place, ...]

    def shows(self, template: str) -> bool:
        """Whether the page of this template belongs to the group."""
        return any(template in place.templates for place in self.places)


def _place(label: str, address: str, key: str, *templates: str) -> Place:
    return Place(label, address, key, frozenset(templates))


MENU = (
    Group("Tables", (_place("Tables", "/ui/", "t", "tables"),)),
    Group("Jobs", (_place("Jobs", "/ui/jobs", "j", "jobs", "job"),)),
    Group(
        "Schedules",
        (
            _place("Schedules", "/ui/schedules", "s", "schedules", "schedule", "schedule_runs"),
            _place("Pending runs", "/ui/pending", "p", "pending"),
            _place("Events", "/ui/events", "e", "events"),
        ),
    ),
    Group(
        "Data",
        (
            _place("Builds", "/ui/builds", "b", "builds", "build", "build_run"),
            _place("Interim tables", "/ui/interim", "i", "interim"),
            _place("Lineage", "/ui/lineage", "n", "lineage"),
        ),
    ),
    Group(
        "Operations",
        (
            _place("Queue", "/ui/queue", "q", "queue"),
            _place("Locks", "/ui/locks", "l", "locks"),
            _place("Audit trail", "/ui/audit", "a", "audit"),
        ),
    ),
)
