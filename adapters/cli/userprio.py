"""``poolbook userprio``: print the accountant's records, now or at an instant, and change them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from json import dumps
from typing import TYPE_CHECKING

from ..condor_tools import userprio as tool
from ..condor_tools.options import Refusal
from ..condor_tools.userprio_edits import Request
from ..condor_tools.userprio_records import read_file
from ..runtime.queries import AccountantRecords, LogBeginsLater, NoNegotiator, NotRecorded, Queries
from .common import log_of, setting, shown

if TYPE_CHECKING:
    from ..condor_tools.cells import Setting

_SECOND = 1_000_000


def userprio(argv: Sequence[str]) -> int:
    query = tool.read(argv)
    if query.edit is not None:
        return _edit(query, query.edit)
    here = setting()
    for text in _asked(query, here):
        sys.stdout.write(text)
    return 0


def _edit(query: tool.Query, edit: Request) -> int:
    from ..machine.host import user_name
    from ..runtime.commands import ask
    from ..runtime.requests import new_id

    whose = {"negotiator": name} if (name := query.arguments.value("name").upper()) else {}
    answer = ask(log_of(query.arguments, "pool"), {**edit.body, **whose, "id": new_id(), "user": user_name()})
    if query.arguments.has("json"):
        print(dumps(answer, indent=2))
    else:
        print(edit.done)
    return 0


def _asked(query: tool.Query, here: Setting) -> Iterator[str]:
    if query.file:
        return tool.render(read_file(query.file), query, here)
    with Queries(log_of(query.arguments, "pool")) as queries:
        try:
            return _answered(query, queries, here)
        except LogBeginsLater as error:
            from ...replay.narration.wording import instant

            raise Refusal(f"poolbook userprio -at: the log begins at {instant(error.began, here.timezone)}") from None
        except NoNegotiator as error:
            raise Refusal(f"poolbook userprio: {error}") from None
        except NotRecorded as error:
            raise Refusal(f"poolbook userprio -getreslist: {error}") from None


def _answered(query: tool.Query, queries: Queries, here: Setting) -> Iterator[str]:
    at = None
    if query.arguments.has("at"):
        from .time_window import instant_of

        at = instant_of("userprio", query.arguments, "at", queries.log)
    whose = "" if queries.imported else queries.negotiator(query.arguments.value("name"))
    if query.holder:
        slots = [(name, since // _SECOND) for name, since in queries.claims_of(query.holder, at)]
        return tool.slot_list(slots, here if at is None else here._replace(now=at // _SECOND))
    if queries.imported:
        found = _imported(queries, here, at)
    else:
        found = queries.accounting(here.now, at, whole=query.whole, negotiator=whose)
    return tool.render(found.records, query, here if found.at is None else here._replace(now=found.at // _SECOND))


def _imported(queries: Queries, here: Setting, at: int | None) -> AccountantRecords:
    from ...replay.forensics.daemon_tables import NotKnown
    from ...replay.narration.wording import instant

    try:
        return queries.accounting(here.now, at)
    except NotKnown as error:
        known = f"from {instant(error.since, here.timezone)} on" if error.since else "at no instant"
        name = shown(queries.url)
        raise Refusal(f"poolbook userprio: what {name} was imported from tells of priorities {known}") from None
