"""Hold, as values, all that a submission asks of the machine; and its errors and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct, field

from ..macros.lines import IncludedFiles
from ..macros.macro_errors import MacroError
from ..state.pool_settings import DEFAULT_IF_EMPTY, SUBMISSION, SUBMIT_TEMPLATE

STANDARD_INPUT: Final = "-"
"""What a description that was read from standard input has as its file's name."""


class SubmitFacts(Struct, kw_only=True):
    """The facts that condor_submit asks of the machine, its user and its configuration."""

    now: int  #: the time of submission, seconds since the epoch
    owner: str
    uid_domain: str
    filesystem_domain: str
    iwd: str  #: the absolute path of the user's working directory
    version: str  #: text of CondorVersion, as ``$CondorVersion: 25.14.1 ... $``
    platform: str  #: text of CondorPlatform
    arch: str = "X86_64"
    opsys: str = "LINUX"
    environment: Mapping[str, str] = field(default_factory=dict)  #: for ``$ENV()`` and ``getenv``
    submit_file: str = ""  #: JobSubmitFile and ``$(SUBMIT_FILE)``; empty or - if the description is not a file
    cluster: int = 1
    seed: int = 0  #: decides what ``$RANDOM_INTEGER`` and ``$RANDOM_CHOICE`` draw
    settings: Mapping[str, str] = field(default_factory=dict)
    """Those that differ from ``settings.SUBMISSION``, in capitals."""

    def setting(self, name: str) -> str:
        """Return a configuration entry; empty where it is not set."""
        value = self.settings.get(name)
        return SUBMISSION[name] if value is None or (not value and name in DEFAULT_IF_EMPTY) else value


class SubmitFiles(IncludedFiles, Protocol):
    """The view of the disk, and of what programs print, that a submission needs. Relative paths are relative to
    ``SubmitFacts.iwd``. What must not be done for this description is refused by a MacroError."""

    def standard_input(self) -> str:
        """Return the text of standard input; raise OSError if there is none."""

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        """Return the paths that match, sorted; a directory's ends in a slash.

        :param directories: True: only directories; False: no directories; None: both
        """

    def size(self, path: str) -> int | None:
        """Return the bytes of a file, or of all files below a directory; None if it does not exist."""


class NoSubmitFiles:
    """A disk of which nothing is known: every file is there, and empty. ``why``: why none can be read."""

    def __init__(self, why: str) -> None:
        self._why = why

    def read(self, path: str) -> str:
        raise OSError(self._why)

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        return []

    def size(self, path: str) -> int | None:
        return 0

    def run(self, command: str) -> str:
        raise OSError(self._why)

    def write(self, path: str, text: str) -> None:
        raise OSError(self._why)

    def standard_input(self) -> str:
        raise OSError(self._why)


class SubmitWarning(UserWarning):
    """Part of a description has no effect, or perhaps an unintended one; the jobs are submitted."""


class SubmitError(MacroError):
    """A description cannot be submitted: the fault, the rule, and what to do."""

    def __init__(self, message: str, line: int | None = None, *, tool: str = "", code: str = "") -> None:
        super().__init__(message, line)
        self.tool, self.code = tool, code


# Know the templates of ``use CATEGORY : NAME`` in a submit description.
#
# ``use strict : NAME`` sets what ``queue matching`` warns of and refuses; ``use template : NAME`` reads what a pool's
# configuration has as ``SUBMIT_TEMPLATE_NAME``, if ``SUBMIT_TEMPLATE_NAMES`` names it. Source: the manual's page
# "Configuration Macros", both entries; HTCondor's ``submit_utils.cpp`` for the templates of ``strict``.

NAMES: Final = "SUBMIT_TEMPLATE_NAMES"

_STRICT = {
    "false": (False, False, False),
    "true": (True, True, True),
    "harsh": (True, True, True),
}
"""Whether an empty match is warned of, whether it is refused, whether a duplicate is warned of."""


def template_text(facts: SubmitFacts, category: str, name: str) -> str | None:
    """Return the lines of a template; None where there is none of that name."""
    if category.lower() == "strict" and name.lower() in _STRICT:
        empty, refused, duplicate = ("true" if each else "false" for each in _STRICT[name.lower()])
        return (
            f"submit_warn_empty_matches = {empty}\nsubmit_fail_empty_matches = {refused}\n"
            f"submit_warn_duplicate_matches = {duplicate}"
        )
    if category.lower() == "template" and name.upper() in _templates(facts):
        return facts.settings.get(SUBMIT_TEMPLATE + name.upper())
    return None


def there_are(facts: SubmitFacts) -> str:
    """Return which templates there are, in words."""
    own = ", ".join(_templates(facts))
    return f"there are strict : {', '.join(_STRICT)}" + (f", and template : {own}" if own else f"; {NAMES} has none")


def _templates(facts: SubmitFacts) -> list[str]:
    return facts.setting(NAMES).upper().replace(",", " ").split()
