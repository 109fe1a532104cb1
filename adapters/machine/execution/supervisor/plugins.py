"""Move files with file transfer plugins: programs that handle the URLs of some schemes.

A plugin is called once for all the files of its schemes: ``PLUGIN -infile FILE -outfile FILE [-upload]``. It reads an
ad for each file, with ``Url`` and ``LocalFileName``, and writes one, with ``TransferSuccess`` and any error. A plugin
that takes too long is killed with its process group. A plugin runs as a child of the mover, and ends with the mover.

Source: the manual's "File Transfer Plug-Ins" (its protocol 2); for the messages and subcodes of failures, HTCondor's
file_transfer.cpp and runs of a real pool.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from .launch import Order

NOT_FOUND, NOT_STARTED, NOTHING_SAID = -1001, -1003, -1004
"""HoldReasonSubCode of failures after which a job is tried again elsewhere instead of held: a URL has no plugin, the
plugin could not be started, or the plugin failed without a message. (HTCondor's CONDOR_HOLD_SUBCODE.)"""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.+-]*)://.")
_WORD = re.compile(r"[A-Za-z0-9_.+-]{1,64}")
_LARGEST = 1 << 53  #: maximum number of bytes that a plugin may report as moved
_LONGEST_ANSWER = 16 << 20  #: maximum number of characters of a plugin's output file to read
_ROOM = b" " * (16 << 10)  #: reserves space in the output file, so that a plugin can report a full disk


class PluginTransfer(NamedTuple):
    """A file for a plugin to move from its URL to a path, or back."""

    url: str
    path: str


class Moved(NamedTuple):
    """A plugin's report on one file: the protocol that it used, and how many bytes."""

    protocol: str
    size: int


class PluginError(Exception):
    """A plugin failed. Contains the subcode, the reason, and the protocol if a single file failed."""

    def __init__(self, subcode: int, reason: str, protocol: str = "") -> None:
        super().__init__(reason)
        self.subcode, self.reason, self.protocol = subcode, reason, protocol


def scheme(name: str) -> str:
    """Return a URL's scheme in lower case (of chtc+https, the last part), or an empty string for any other name."""
    match = _SCHEME.match(name)
    return re.split(r"[.+-]", match[1])[-1].lower() if match else ""


def file_name(url: str) -> str:
    """Return the name of a URL's file at its destination."""
    return os.path.basename(url.partition("?")[0])


class Plugins:
    """The plugins that an order names, for the files of one direction."""

    def __init__(self, order: Order, scratch: str, *, upload: bool) -> None:
        self._order, self._scratch, self._upload = order, scratch, upload
        self._by_scheme: dict[str, list[str]] = order["transfer"].get("plugins", {})
        self._seconds: int = order["transfer"].get("plugin_seconds", 0)
        self._requests: dict[tuple[str, ...], list[PluginTransfer]] = {}

    def add_file(self, url: str, path: str) -> None:
        """Add a file to move. Raise `PluginError` if no plugin handles its scheme."""
        command = self._by_scheme.get(scheme(url))
        if command is None:
            kind = scheme(url)
            raise PluginError(NOT_FOUND, f"FILETRANSFER: plugin for type {kind} not found!", kind)
        self._requests.setdefault(tuple(command), []).append(PluginTransfer(url, path))

    def move(self) -> Iterator[tuple[list[Moved], PluginError | None]]:
        """Call each plugin; yield its moved files, and its failure if it failed."""
        for command, requests in self._requests.items():
            yield self._call_plugin(command, requests)

    def _call_plugin(
        self, argv: tuple[str, ...], requests: list[PluginTransfer]
    ) -> tuple[list[Moved], PluginError | None]:
        label = argv[-1]
        stem = f"{self._scratch}/.{os.path.basename(label)}"
        program = [f"{self._scratch}/{argv[0]}", *argv[1:]] if "/" not in argv[0] else list(argv)
        try:
            with _files(stem, requests) as (infile, outfile):
                options = ["-infile", infile, "-outfile", outfile, *(["-upload"] if self._upload else [])]
                status = self._run(label, [*program, *options])
                with open(outfile, encoding="utf-8", errors="surrogateescape") as file:
                    ads = read_ads(file.read(_LONGEST_ANSWER))
        except OSError as error:
            return [], PluginError(NOT_STARTED, f"FILETRANSFER: Failed to execute {label}: {error.strerror}")
        moved_files = [Moved(_protocol(ad), _size(ad)) for ad in ads]
        return moved_files, self._failure(label, f"{stem}.out", status, ads, requests)

    def _run(self, label: str, command: list[str]) -> int | None:
        """Run a plugin; return its wait status, or None if it was killed for taking too long. Raise `OSError` if it
        cannot be started."""
        os.chdir(self._scratch)
        null_files = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
        pid = os.posix_spawn(command[0], command, self._environment(label), file_actions=null_files, setsid=True)
        pidfd = os.pidfd_open(pid)
        try:
            ended_in_time = select.select([pidfd], [], [], self._seconds)[0]
        finally:
            os.close(pidfd)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)  # the plugin's remaining processes must not write either
        status = os.waitpid(pid, 0)[1]
        return status if ended_in_time else None

    def _environment(self, label: str) -> dict[str, str]:
        """Return the supervisor's environment, the paths of the job's ads, and the job's variables that begin with the
        plugin's name."""
        name = re.split(r"_plugin|\.", os.path.basename(label))[0].upper()
        own = {key: text for key, text in self._order["environment"].items() if name and key.startswith(f"{name}_")}
        ads = {"_CONDOR_JOB_AD": f"{self._scratch}/.job.ad", "_CONDOR_MACHINE_AD": f"{self._scratch}/.machine.ad"}
        return {**os.environ, **own, **ads}

    def _failure(
        self, label: str, outfile: str, status: int | None, ads: list[Ad], requests: list[PluginTransfer]
    ) -> PluginError | None:
        """Return why a plugin failed, or None if it succeeded."""
        was_signalled = status is not None and os.WIFSIGNALED(status)
        number = errno.ETIME if status is None else os.WTERMSIG(status) if was_signalled else os.WEXITSTATUS(status)
        subcode = number if status is None or was_signalled else number << 8
        ended = f"({'signal' if was_signalled else 'exit code'} {number})"
        if not ads:
            reason = f"file transfer plugin {label} exited {ended}, no valid classads in output file {outfile}"
            return PluginError(subcode if status is None or was_signalled else NOTHING_SAID, reason)
        for ad in reversed(ads):
            if ad.get("transfersuccess") is not True:
                url = _text(ad, "transferurl")
                silence_text = f"File transfer plugin {label} exited unexpectedly without producing an error message "
                reason = f"{_text(ad, 'transfererror', silence_text)} ( URL file = {url} )"
                return PluginError(subcode, reason, _protocol(ad))
        if status is None:
            return PluginError(subcode, f"File transfer plugin {label} timed out after {self._seconds} seconds.")
        if number:
            reason = f"failed unexpectedly with exit code {number}, did not report a TransferError message."
            return PluginError(subcode, f"File transfer plugin {label} {reason}")
        unreported = {request.url for request in requests} - {_text(ad, "transferurl") for ad in ads}
        if unreported:
            url = min(unreported)
            reason = f"File transfer plugin {label} exited without producing a TransferSuccess result ({url})"
            return PluginError(0, reason, scheme(url))
        return None


@contextlib.contextmanager
def _files(stem: str, requests: Iterable[PluginTransfer]) -> Iterator[tuple[str, str]]:
    """Create the two files of a call. Raise `OSError` if that fails."""
    infile, outfile = f"{stem}.in", f"{stem}.out"
    ads: list[Ad] = [{"Url": request.url, "LocalFileName": request.path} for request in requests]
    try:
        for path, data in ((infile, write_ads(ads).encode("utf-8", "surrogateescape")), (outfile, _ROOM)):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(data)
        yield infile, outfile
    finally:
        for path in (infile, outfile):
            with contextlib.suppress(OSError):
                os.unlink(path)


def _text(ad: Ad, name: str, default: str = "") -> str:
    value = ad.get(name)
    return value if isinstance(value, str) and value else default


def _protocol(ad: Ad) -> str:
    """Return the protocol that a plugin reports; if it is not a word, the URL's scheme."""
    protocol = _text(ad, "transferprotocol")
    return protocol if _WORD.fullmatch(protocol) else scheme(_text(ad, "transferurl"))


def _size(ad: Ad) -> int:
    value = ad.get("transfertotalbytes", ad.get("transferfilebytes"))
    return int(min(max(value, 0), _LARGEST)) if isinstance(value, int | float) and value == value else 0


# The ads that plugins read and write: a sequence of ClassAds in the new syntax. Only the values that a plugin reports
# are parsed: strings, numbers, true and false. Any other expression, a list or a nested ad reads as None.


Value: TypeAlias = str | int | float | bool | None
Ad: TypeAlias = Mapping[str, Value]  #: by the names in lower case

_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<text>"(?:[^"\\]|\\.)*") | (?P<name>'(?:[^'\\]|\\.)*')
    | (?P<mark>[\[\]{}();=,]) | (?P<word>[^\s\[\]{}();=,"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_WORDS: Mapping[str, bool] = {"true": True, "false": False}
_OPENS, _CLOSES = "[{(", "]})"


def write_ads(ads: Sequence[Mapping[str, Value]]) -> str:
    return "".join(f"[ {'; '.join(f'{name} = {_format_value(value)}' for name, value in ad.items())} ]" for ad in ads)


def _format_value(value: Value) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return "undefined" if value is None else str(value)
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def read_ads(text: str) -> list[Ad]:
    """Parse the ads of a text, up to the first token outside an ad."""
    tokens = _tokens(text)
    ads: list[Ad] = []
    while next(tokens, ("", ""))[1] == "[":
        ad = _ad(tokens)
        if ad is None:
            break
        ads.append(ad)
    return ads


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and text of each token; stop at the first invalid character."""
    place = 0
    while place < len(text) and (match := _TOKEN.match(text, place)):
        place = match.end()
        if match.lastgroup:
            yield match.lastgroup, match[match.lastgroup]


def _ad(tokens: Iterator[tuple[str, str]]) -> Ad | None:
    """Parse the ad whose opening bracket was just read; return None if the ad is not closed."""
    ad: dict[str, Value] = {}
    line: list[tuple[str, str]] = []
    depth = 0
    for kind, text in tokens:
        ends_value = kind == "mark" and not depth and text in ";]"
        if ends_value:
            if len(line) > 2 and line[1] == ("mark", "="):
                ad[line[0][1].strip("'").lower()] = _value(line[2:])
            line = []
            if text == "]":
                return ad
            continue
        depth += kind == "mark" and text in _OPENS
        depth -= kind == "mark" and text in _CLOSES
        line.append((kind, text))
    return None


def _value(tokens: Sequence[tuple[str, str]]) -> Value:
    kind, text = tokens[0]
    if len(tokens) > 1:
        return None
    if kind == "text":
        return _ESCAPE.sub(_unescape, text[1:-1])
    if (lower_text := text.lower()) in _WORDS:
        return _WORDS[lower_text]
    for read_number in (int, float):
        try:
            return read_number(text)
        except ValueError:
            continue
    return None


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    return chr(int(code, 8)) if code.isdigit() else _ESCAPED.get(code, code)
