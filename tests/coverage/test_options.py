"""golden: every option in HTCondor's manual pages is implemented, or rejected with a reason."""

from __future__ import annotations

from poolbook.adapters.cli.documentation import table_of
from poolbook.adapters.cli.main import command_named
from poolbook.adapters.condor_tools.options import Option, UsageError, find_option

from ..together import together
from . import code
from .page import tool_of


def options() -> dict[str, list[str]]:
    """Return the options in the manual page of each tool that has a counterpart in Poolbook."""
    by_tool: dict[str, list[str]] = {}
    for line in (code.DATA / "options.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        tool, option = line.split("\t")
        by_tool.setdefault(tool, []).append(option)
    return by_tool


def option_of_tool(tool: str, option: str) -> Option | None:
    table = tool_of(tool)
    if table is not None:
        match = table.find(option)
        return None if match is None else match[0]._replace(help="implemented")
    try:
        return find_option(table_of(command_named(tool)), option)[0]
    except UsageError:
        return None


@together("tool", options())
def test_every_option_in_the_manual_exists_or_is_rejected_with_a_reason(tool: str) -> None:
    known = {name: option_of_tool(tool, name) for name in options()[tool]}
    assert [name for name, option in known.items() if option is None] == []
    assert [name for name, option in known.items() if option and not (option.help or option.refused)] == []
