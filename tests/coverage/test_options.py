"""golden: every option that the manual's pages of HTCondor's tools have is followed here, or refused in words."""

from __future__ import annotations

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import command_named
from poolbook.adapters.condor_tools.options import Option, UsageError, find

from ..together import together
from . import code
from .page import tool_of


def options() -> dict[str, list[str]]:
    """The options of each tool that has a counterpart here, as its page of the manual lists them."""
    found: dict[str, list[str]] = {}
    for line in (code.DATA / "options.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        tool, option = line.split("\t")
        found.setdefault(tool, []).append(option)
    return found


def known(tool: str, option: str) -> Option | None:
    table = tool_of(tool)
    if table is not None:
        found = table.find(option)
        return None if found is None else found[0]._replace(help="followed")
    try:
        return find(table_of(command_named(tool)), option)[0]
    except UsageError:
        return None


@together("tool", options())
def test_every_option_of_the_manual_is_there_or_refused_in_words(tool: str) -> None:
    found = {option: known(tool, option) for option in options()[tool]}
    assert [option for option, there in found.items() if there is None] == []
    assert [option for option, there in found.items() if there and not (there.help or there.refused)] == []
