"""Tables of the pages in docs/ that are generated from the code, each between two comments that name it.

The functions that generate them are next to the tests that compare them, and ``docs/generate.py`` writes the pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_SECTION = re.compile(r"(<!-- drawn: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    rule = ["---"] * len(heads)
    rows = ([cell.replace("|", "\\|") for cell in cells] for cells in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (heads, rule, *rows))


def fill(page: str, drawn: Mapping[str, str]) -> str:
    """Return the page with each of its sections generated again.

    :raises ValueError: the page lacks a section, has one twice, or names one that there is not
    """
    names = [match["name"] for match in _SECTION.finditer(page)]
    if sorted(names) != sorted(drawn):
        wrong_names = sorted({name for name in (*names, *drawn) if names.count(name) != 1 or name not in drawn})
        raise ValueError(f"the page should have each section once: see {', '.join(wrong_names)}")
    return _SECTION.sub(lambda match: f"{match[1]}\n{drawn[match['name']]}\n\n{match[3]}", page)
