"""Other names of commands: HTCondor's own, and those of tools without a counterpart, with what to use instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from ..condor_tools.options import pair, sections

PREFIX = "condor_"
SAME = {"vacate_job": "vacate", "master": "serve", "analyze": "why"}
"""HTCondor's tools that Poolbook has under another name."""

_SECTIONS = sections("instead")
UNSUPPORTED, WORDS = (
    {name: text for names, text in map(pair, _SECTIONS[heading]) for name in names.split(", ")}
    for heading in ("tools:", "words:")
)
"""Tools of HTCondor's, and other words, without a command: what does the same, or why nothing does."""
INSTEAD = UNSUPPORTED | WORDS


def aliases() -> Mapping[str, Sequence[str]]:
    """Return the other names of each command, without HTCondor's prefix."""
    found: dict[str, list[str]] = {}
    for other, name in SAME.items():
        found.setdefault(name, []).append(other)
    return found


def meant(name: str, commands: Collection[str]) -> str:
    """Return the command that a word means; empty if none. Of tools that have HTCondor's names alone (``main.TOOLS``)
    it is not asked."""
    plain = name.removeprefix(PREFIX)
    if name in commands:
        return name
    if name != plain and plain in commands and plain not in INSTEAD:
        return plain
    return SAME.get(plain, "")


def unknown(name: str, commands: Iterable[str]) -> str:
    """Return the message for a word that means no command."""
    from ...domain.suggestions import did_you_mean

    plain = name.removeprefix(PREFIX)
    if plain in INSTEAD:
        return f"poolbook: there is no command {name}: {INSTEAD[plain]}"
    if hint := did_you_mean(plain, commands):
        return f"poolbook: there is no command {name!r}; {hint}"
    if name != plain:
        return f"poolbook: Poolbook has no counterpart of {name}; `poolbook -help` lists its commands"
    return f"poolbook: there is no command {name!r}; `poolbook -help` lists the commands"
