"""What a slot tells the pool of its machine's sensors: at most once in UPDATE_INTERVAL, and only what has changed.

The policy asks the sensors themselves. Whoever reads the log (``poolbook status``, an audit) sees what was published:
the load, the instant of the last input (KeyboardIdle as ``time() - <instant>``, so that time passing is no news), and
what the owner's own sensors say of attributes that the slot's expressions read.
"""

from __future__ import annotations

from ..events import Ad
from .look import Look, written
from .readings import NOTHING_READ
from .settings import duration
from .view import MOMENT, since, static

_LOADS = ("LoadAvg", "CondorLoadAvg", "TotalLoadAvg", "TotalCondorLoadAvg")
_SHOWN = frozenset({"loadavg", "condorloadavg", "keyboardidle"})
"""What ``status`` shows."""


def due(look: Look) -> int | None:
    """When the slot publishes next, if nothing changes meanwhile: None if there is no news."""
    if not news(look):
        return None
    return max(look.now, look.slot.published + _interval(look))


def news(look: Look) -> Ad:
    """What would be published now: the attributes that differ from what was published last (an empty text: gone)."""
    moment = look.moment()
    if moment.readings == NOTHING_READ and not look.slot.public:
        return {}
    names = static(look.state, look.slot).names
    said = {name: text for name, text in _said(look) if names is None or name.lower() in names | _SHOWN}
    before = look.slot.public
    changes = {name: text for name, text in said.items() if before.get(name) != text}
    return changes | {name: "" for name in before if name not in said}


def _said(look: Look) -> list[tuple[str, str]]:
    moment = look.moment()
    found = [(name, written(round(float(MOMENT[name.lower()][1](moment)), 2))) for name in _LOADS]
    found += [(name, f"time() - {since(moment, console)}") for name, console in _IDLES]
    for source in (moment.readings.attributes, moment.readings.slots.get(look.slot.name, {})):
        found += source.items()
    return found


_IDLES = (("KeyboardIdle", False), ("ConsoleIdle", True))


def _interval(look: Look) -> int:
    return duration(look.state, look.state.machines.get(look.slot.machine), "UPDATE_INTERVAL")


def timely(look: Look) -> Ad:
    """The news, if the time to publish has come."""
    return news(look) if look.now >= look.slot.published + _interval(look) else {}
