"""What a slot tells the pool of its machine's sensors: at most once in UPDATE_INTERVAL, and only what has changed.

The policy asks the sensors themselves. Whoever reads the log (``poolbook status``, an audit) sees what was published:
the load, the instant of the last input (KeyboardIdle as ``time() - <instant>``, so that time passing is no news), and
what the owner's own sensors say of attributes that the slot's expressions read.
"""

from __future__ import annotations

from ..events import Ad
from .look import Look
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
    joined, apart = _grid(look)
    return joined + ((look.now - joined) // apart + 1) * apart


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
    found = [(name, repr(round(float(MOMENT[name.lower()][1](moment)), 2))) for name in _LOADS]
    found += [(name, f"time() - {since(moment, console)}") for name, console in _IDLES]
    for source in (moment.readings.attributes, moment.readings.slots.get(look.slot.name, {})):
        found += source.items()
    return found


_IDLES = (("KeyboardIdle", False), ("ConsoleIdle", True))


def _grid(look: Look) -> tuple[int, int]:
    """When the updates of the slot's machine began, and how far they are apart."""
    machine = look.state.machines.get(look.slot.machine)
    return (machine.joined if machine else 0), max(1, duration(look.state, machine, "UPDATE_INTERVAL"))


def timely(look: Look, apart: int) -> Ad:
    """The news in the first round of each UPDATE_INTERVAL, where rounds are ``apart``; none in the others."""
    joined, update = _grid(look)
    since = look.now - joined
    return news(look) if since // update > (since - apart) // update else {}
