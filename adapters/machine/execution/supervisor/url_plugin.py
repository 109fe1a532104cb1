"""Poolbook's own file transfer plugin, for file:, data:, http:, https: and ftp: URLs.

It implements protocol 2 (the manual's "File Transfer Plug-Ins"); ``run`` starts it. An incomplete file is removed
again, and a file for a file: URL gets its name when it is complete and durable. After a temporary failure, such as no
answer from a server, it tries again as often as HTCondor's curl plugin does.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import IO, Any
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from .plugins import Ad, Value, read_ads, scheme, write_ads

_RETRIES = 20  #: the pause grows by a second each time
_PATIENCE_S = 60  #: the timeout for a server's answer


class _TransferFailed(Exception):
    """A file was not moved; the text gives the reason. ``temporary`` is true if a retry may succeed."""

    def __init__(self, reason: str, temporary: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.temporary = reason, temporary


def main(*arguments: str) -> int:
    """Run a plugin's command line; return its exit status: 1 if a file was not moved."""
    if arguments == ("-classad",):
        print(f'MultipleFileSupport = true\nPluginType = "FileTransfer"\nSupportedMethods = "{",".join(SCHEMES)}"')
        print('ProtocolVersion = 2\nPluginVersion = "1.0"')
        return 0
    options = dict(pairwise(arguments))
    with open(options["-infile"], encoding="utf-8", errors="surrogateescape") as file:
        ads = [ad for ad in read_ads(file.read()) if "url" in ad]
    results = [_result(ad, "-upload" in arguments) for ad in ads]
    with open(options["-outfile"], "r+b") as answer:  # overwrite it: its space is reserved even if the disk is full
        answer.write("\n".join(write_ads([result]) for result in results).encode("utf-8", "surrogateescape"))
        answer.truncate()
    return 0 if all(result["TransferSuccess"] for result in results) else 1


def _result(ad: Ad, upload: bool) -> dict[str, Value]:
    url, path = str(ad["url"]), str(ad.get("localfilename"))
    began = int(time.time())
    result: dict[str, Value] = {"TransferUrl": url, "TransferFileName": path, "TransferProtocol": scheme(url)}
    result["TransferType"] = "upload" if upload else "download"
    try:
        size = _move_file(url, path, upload)
        result |= {"TransferSuccess": True, "TransferFileBytes": size, "TransferTotalBytes": size}
    except _TransferFailed as error:
        result |= {"TransferSuccess": False, "TransferError": error.reason, "TransferTotalBytes": 0}
    return result | {"TransferStartTime": began, "TransferEndTime": int(time.time())}


def _move_file(url: str, path: str, upload: bool) -> int:
    """Move a file; return its size. Raise `_TransferFailed` if that fails."""
    functions = SCHEMES.get(scheme(url))
    move = functions[upload] if functions else None
    if move is None:
        raise _TransferFailed(f"{scheme(url)}: URLs cannot be {'written' if upload else 'read'}")
    for attempt in range(_RETRIES + 1):
        try:
            move(url, path)
            return os.stat(path).st_size
        except _TransferFailed as error:
            last_failure = error
        except OSError as error:
            last_failure = _TransferFailed(_words(error), temporary=isinstance(error, ConnectionError | TimeoutError))
        if not upload:
            with contextlib.suppress(OSError):
                os.unlink(path)
        if not last_failure.temporary:
            break
        time.sleep(attempt + 1)
    raise last_failure


def _words(error: OSError) -> str:
    where = f" {error.filename}" if error.filename else ""
    return f"(errno {error.errno}) {error.strerror or error}{where}"


# Each scheme


def _read_data(url: str, path: str) -> None:
    """Decode data://[TYPE][;base64],DATA/NAME. A list of files is separated by commas, so the URL has %2C instead."""
    head_text, comma, data_text = url.partition("://")[2].replace("%2c", "%2C").replace("%2C", ",", 1).partition(",")
    data, slash, _ = data_text.rpartition("/")
    if not comma or not slash:
        raise _TransferFailed("a data: URL is data://[;base64]%2CDATA/NAME")
    try:
        content = base64.b64decode(data, validate=True) if head_text.endswith(";base64") else unquote_to_bytes(data)
    except ValueError as error:
        raise _TransferFailed(f"the data of a data: URL cannot be read: {error}") from None
    with open(path, "wb") as file:
        file.write(content)


def _read_file(url: str, path: str) -> None:
    if not os.path.exists(_local_path(url)):
        raise _TransferFailed(f"Could not open file {_local_path(url)}")
    with open(_local_path(url), "rb") as source, open(path, "wb") as target:
        shutil.copyfileobj(source, target)


def _write_file(url: str, path: str) -> None:
    target = _local_path(url)
    staged_path = f"{os.path.dirname(target)}/.poolbook-{os.getpid()}-{os.path.basename(target)}"
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(path, "rb") as source, open(staged_path, "xb") as file:
            shutil.copyfileobj(source, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged_path, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(staged_path)
        if error.filename == staged_path:
            error.filename = target
        raise


def _local_path(url: str) -> str:
    return unquote(urlsplit(url).path)


def _download(url: str, path: str) -> None:
    with _open_url(url) as answer, open(path, "wb") as file:
        shutil.copyfileobj(answer, file)
        announced = answer.headers.get("Content-Length")
        if announced is not None and file.tell() != int(announced):
            raise _TransferFailed(f"end of response with {int(announced) - file.tell()} bytes missing", temporary=True)


def _upload(url: str, path: str) -> None:
    with open(path, "rb") as file, _open_url(url, file):
        pass


def _open_url(url: str, data: IO[bytes] | None = None) -> Any:
    """Return a server's answer. Raise `_TransferFailed` if the request fails."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    request = Request(url, method="PUT" if data else None)
    if data:
        request.data = data
        request.add_header("Content-Length", str(os.fstat(data.fileno()).st_size))
    try:
        return urlopen(request, timeout=_PATIENCE_S)
    except HTTPError as error:
        raise _TransferFailed(f"The requested URL returned error: {error.code}") from None
    except URLError as error:
        temporary = isinstance(error.reason, ConnectionError | TimeoutError)
        raise _TransferFailed(f"Failed to connect to {urlsplit(url).netloc}: {error.reason}", temporary) from None
    except (HTTPException, ValueError) as error:
        raise _TransferFailed(f"{type(error).__name__}: {error}") from None


def _upload_by_ftp(url: str, path: str) -> None:
    from ftplib import FTP, all_errors

    place = urlsplit(url)
    try:
        with FTP(timeout=_PATIENCE_S) as server, open(path, "rb") as file:
            server.connect(place.hostname or "", place.port or 21)
            server.login(unquote(place.username or ""), unquote(place.password or ""))
            server.storbinary(f"STOR {unquote(place.path).lstrip('/')}", file)
    except all_errors as error:
        raise _TransferFailed(str(error), isinstance(error, ConnectionError | TimeoutError)) from None


_Move = Callable[[str, str], None]
SCHEMES: Mapping[str, tuple[_Move, _Move | None]] = {
    "data": (_read_data, None),
    "file": (_read_file, _write_file),
    "ftp": (_download, _upload_by_ftp),
    "http": (_download, _upload),
    "https": (_download, _upload),
}
"""By scheme: the functions that download and upload a file."""
