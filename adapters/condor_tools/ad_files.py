"""Ads from a file that HTCondor's tools wrote: what -jobads, -ads and -file name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..bounded_text import read_input, read_text
from .options import Refusal, UsageError

if TYPE_CHECKING:
    from ...domain.classad import ClassAd

_BETWEEN_ADS = re.compile(r"^(?:\s*|(?:\*\*\*|\.\.\.).*)$\n?", re.MULTILINE)
_FORMS = ("auto", "long", "json", "xml", "new")


def ads_of_file(option: str, name: str, form: str | None, missing: str) -> list[ClassAd]:
    """Return the ads of a file; ``-`` is standard input.

    :param option: the option that names it, for messages
    :param form: the file's form, as the option's text after the colon names it; None and auto: its beginning tells
    :param missing: what is said if it cannot be read
    :raises Refusal: it cannot be read
    :raises UsageError: it has another form than that, or this is none
    """
    form = form or "auto"
    if form not in _FORMS:
        raise UsageError(f"{option}: there is no form {form!r}; the forms are: {', '.join(_FORMS)}")
    try:
        text = read_input() if name == "-" else read_text(name)
    except OSError:
        raise Refusal(missing) from None
    from ...domain.classad import ClassAdSyntaxError

    try:
        return list(_ads(text, _form_of(text) if form == "auto" else form))
    except (ClassAdSyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{option} {name}: {error}") from None


def _form_of(text: str) -> str:
    begin = text.lstrip()[:200]
    if begin.startswith("<"):
        return "xml"
    if re.match(r"(?:\[\s*)?\{\s*(?:\"|\}|$)", begin) or begin.startswith("[]"):
        return "json"
    return "new" if begin.startswith(("[", "{")) else "long"


def _ads(text: str, form: str) -> Iterator[ClassAd]:
    from ...domain.classad import ClassAd

    if form == "long":
        yield from (ClassAd.from_old(block) for block in _BETWEEN_ADS.sub("\n", text).split("\n\n") if block.strip())
    elif form == "new":
        yield from (ClassAd.from_new(block) for block in re.findall(r"^\[.*?^\]|^\[[^\n]*\]$", text, re.M | re.S))
    else:
        from ..condor_files.ad_objects import of_json, of_xml

        for cut in (of_json if form == "json" else of_xml)(text):
            if cut.wrong:
                raise ValueError(cut.wrong)
            if cut.ad:
                yield ClassAd.from_old(cut.ad)
