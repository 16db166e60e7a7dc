"""The icon in Airflow's navigation: three crossed lines, a snow crystal, for light and for dark.

They are data addresses: a file of our own would make every page of Airflow wait for our app to be built.
"""

from __future__ import annotations

from urllib.parse import quote

_ARMS = "M12 2v20M3.3 7l17.4 10M20.7 7L3.3 17"
_TIPS = "M9 3.5l3 3 3-3M9 20.5l3-3 3 3M3.5 11l4-1.5-1-4M20.5 13l-4 1.5 1 4M20.5 11l-4-1.5 1-4M3.5 13l4 1.5-1 4"


def _icon(colour: str) -> str:
    drawn = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" stroke-width="1.6" stroke-linecap="round" '
        f'stroke-linejoin="round" stroke="{colour}"><path d="{_ARMS}{_TIPS}"/></svg>'
    )
    return "data:image/svg+xml," + quote(drawn)


LIGHT = _icon("#3f3f46")
DARK = _icon("#d4d4d8")
