"""The facts and files that a submission needs from the machine, and the error and warning that it may raise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct, field

from ..macros.lines import IncludedFiles
from ..macros.macro_errors import MacroError
from ..state.pool_settings import DEFAULT_IF_EMPTY, SUBMISSION, SUBMIT_TEMPLATE

STANDARD_INPUT: Final = "-"
"""The file name of a description that is read from standard input."""


class SubmitFacts(Struct, kw_only=True):
    """The facts about the machine, the user and the configuration that a submission needs."""

    now: int  #: the time of submission, seconds since the epoch
    owner: str
    uid_domain: str
    filesystem_domain: str
    iwd: str  #: the absolute path of the user's working directory
    version: str  #: the text of CondorVersion, for example ``$CondorVersion: 25.14.1 ... $``
    platform: str  #: the text of CondorPlatform
    arch: str = "X86_64"
    opsys: str = "LINUX"
    environment: Mapping[str, str] = field(default_factory=dict)  #: for ``$ENV()`` and ``getenv``
    submit_file: str = ""  #: JobSubmitFile and ``$(SUBMIT_FILE)``; empty or - if the description is not in a file
    cluster: int = 1
    seed: int = 0  #: for ``$RANDOM_INTEGER`` and ``$RANDOM_CHOICE``
    settings: Mapping[str, str] = field(default_factory=dict)
    """The settings that differ from ``SUBMISSION``, by upper-case name."""

    def setting(self, name: str) -> str:
        """Return the value of a setting, or an empty string if it is not set."""
        value = self.settings.get(name)
        return SUBMISSION[name] if value is None or (not value and name in DEFAULT_IF_EMPTY) else value


class SubmitFiles(IncludedFiles, Protocol):
    """The interface through which a submission reads files and runs programs. Paths are relative to
    ``SubmitFacts.iwd``. A method raises MacroError if this description may not do what it asks for."""

    def standard_input(self) -> str:
        """Return the text of standard input; raise OSError if there is none."""

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        """Return the paths that match a pattern, sorted; directories end in a slash.

        :param directories: True: only directories; False: only files; None: both
        """

    def size(self, path: str) -> int | None:
        """Return the size of a file, or of all files below a directory, in bytes, or None if it does not exist."""


class NoSubmitFiles:
    """A ``SubmitFiles`` without disk access. Every file exists with size 0; reading one fails with ``reason``."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def read(self, path: str) -> str:
        raise OSError(self._reason)

    def glob(self, pattern: str, directories: bool | None) -> list[str]:
        return []

    def size(self, path: str) -> int | None:
        return 0

    def run(self, command: str) -> str:
        raise OSError(self._reason)

    def write(self, path: str, text: str) -> None:
        raise OSError(self._reason)

    def standard_input(self) -> str:
        raise OSError(self._reason)


class SubmitWarning(UserWarning):
    """A submit command has no effect, or probably not the intended one. The jobs are submitted.

    >>> warnings.simplefilter("error", SubmitWarning)  # raise an error instead
    """


class SubmitError(MacroError):
    """A submit description is invalid. The message names the problem, the rule and the fix.

    >>> pool.submit({"executable": "/bin/work", "request_memory": "plenty of"})
    Traceback (most recent call last):
    SubmitError: ...
    """

    def __init__(self, message: str, line: int | None = None, *, tool: str = "", code: str = "") -> None:
        super().__init__(message, line)
        self.tool, self.code = tool, code


# The templates of ``use CATEGORY : NAME`` in a submit description.
#
# ``use strict : NAME`` sets the warnings and errors of ``queue matching``. ``use template : NAME`` reads the setting
# ``SUBMIT_TEMPLATE_NAME`` of the pool's configuration, if ``SUBMIT_TEMPLATE_NAMES`` lists it. Source: the manual's page
# "Configuration Macros", both entries; HTCondor's ``submit_utils.cpp`` for the templates of ``strict``.

TEMPLATE_NAMES: Final = "SUBMIT_TEMPLATE_NAMES"

_STRICT_TEMPLATES = {"false": (False, False, False), "true": (True, True, True), "harsh": (True, True, True)}
"""For each template: whether to warn of empty matches, reject empty matches, and warn of duplicates."""


def template_text(facts: SubmitFacts, category: str, name: str) -> str | None:
    """Return the lines of a template, or None if the template does not exist."""
    if category.lower() == "strict" and name.lower() in _STRICT_TEMPLATES:
        warn_empty, fail_empty, warn_duplicate = ("true" if on else "false" for on in _STRICT_TEMPLATES[name.lower()])
        return (
            f"submit_warn_empty_matches = {warn_empty}\nsubmit_fail_empty_matches = {fail_empty}\n"
            f"submit_warn_duplicate_matches = {warn_duplicate}"
        )
    if category.lower() == "template" and name.upper() in _template_names(facts):
        return facts.settings.get(SUBMIT_TEMPLATE + name.upper())
    return None


def list_templates(facts: SubmitFacts) -> str:
    """Return a list of the available templates for a message."""
    names = ", ".join(_template_names(facts))
    return f"there are strict : {', '.join(_STRICT_TEMPLATES)}" + (
        f", and template : {names}" if names else f"; {TEMPLATE_NAMES} has none"
    )


def _template_names(facts: SubmitFacts) -> list[str]:
    return facts.setting(TEMPLATE_NAMES).upper().replace(",", " ").split()
