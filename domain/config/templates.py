"""Find the templates that ``use CATEGORY : NAME, NAME(argument, ...)`` names, and put their arguments in
(``macros.templates``)."""

from __future__ import annotations

from collections.abc import Iterator

from ..macros.templates import expanded, named
from ..suggestions import did_you_mean
from .errors import ConfigError
from .tables import Template, templates


def used_templates(category: str, text: str) -> Iterator[tuple[Template, str]]:
    """Yield the named templates with their arguments; raise ConfigError for an unknown one, with the near ones."""
    if not category:
        raise ConfigError(f"use : {text}: a category is wanted before the colon, as in use POLICY : Desktop")
    known = templates()
    mine = {name: template for (kind, name), template in known.items() if kind == category.lower()}
    if not mine:
        kinds = ", ".join(sorted({kind.upper() for kind, _ in known}))
        raise ConfigError(f"use {category} : {text}: there is no such category of templates; there are {kinds}")
    for name, arguments in named(category, text):
        template = mine.get(name.lower())
        if template is None:
            listed = f"`poolbook config use {category}` lists them"
            hint = did_you_mean(name, (one.name for one in mine.values()), listed, likeness=0.5)
            raise ConfigError(f"use {category} : {name}: there is no such template; {hint}")
        yield template, arguments


def expanded_lines(template: Template, arguments: str) -> list[str]:
    return expanded(f"use {template.category} : {template.name}", "\n".join(template.lines), arguments)
