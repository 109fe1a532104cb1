"""``poolbook doc``: print the pages of the documentation and the examples, wherever Poolbook is installed."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

from ..condor_tools.options import UsageError, command_table, parse
from ..condor_tools.terminal import folded, width_of

FOLDER = Path(__file__).resolve().parents[2] / "docs"
"""docs/ stands beside the rooms in a checkout and in the package."""
CONTENTS = "README"

COMMAND = command_table("doc")


def files() -> Mapping[str, Path]:
    """Return the pages by name and the examples by file name."""
    pages = {path.stem: path for path in sorted(FOLDER.glob("*.md"))}
    return pages | {path.name: path for path in sorted((FOLDER / "examples").iterdir()) if path.is_file()}


def doc(argv: Sequence[str]) -> int:
    arguments = parse(COMMAND, argv)
    if len(arguments.words) > 1:
        raise UsageError(f"poolbook doc: one page at a time, not {' and '.join(arguments.words)}")
    path = _named(arguments.words[0] if arguments.words else CONTENTS)
    if arguments.has("folder"):
        print(path if arguments.words else FOLDER)
    elif arguments.has("json"):
        print(json.dumps({"name": path.name, "file": str(path), "text": path.read_text(encoding="utf-8")}, indent=2))
    elif sys.stdout.isatty():
        import pydoc

        pydoc.pager(folded(path.read_text(encoding="utf-8"), width_of()))
    else:
        print(path.read_text(encoding="utf-8"), end="")
    return 0


def _named(word: str) -> Path:
    """Return the file that a word means: ``play``, or ``docs/play.md`` as other pages write it."""
    from ...domain.suggestions import did_you_mean

    known = files()
    name = PurePath(word).name
    found = known.get(name) or known.get(name.removesuffix(".md"))
    if found is None:
        hint = did_you_mean(name, known, "`poolbook doc` lists the pages", likeness=0.5)
        raise UsageError(f"poolbook doc: there is no page or example {word!r}; {hint}")
    return found
