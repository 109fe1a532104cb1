"""golden: Poolbook's own file transfer plugin, and the ads that plugins read and write."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.supervisor import url_plugin
from poolbook.adapters.machine.execution.supervisor.plugins import Value, read_ads, write_ads
from poolbook.domain.classad import parse

from ..together import together

# The ads

ADS: dict[str, list[dict[str, Value]]] = {
    "": [],
    '[ Url = "a;b"; N = 3 ] \n [a=1.5;]': [{"url": "a;b", "n": 3}, {"a": 1.5}],
    r'[ A = "quoted \"x\" \\ \n \101" ; B = TRUE; c = false ]': [{"a": 'quoted "x" \\ \n A', "b": True, "c": False}],
    '[ a = [ b = "]"; c = 2 ]; d = { 1; [ ] }; e = f(1, 2); g = 7 ]': [{"a": None, "d": None, "e": None, "g": 7}],
    "// a remark\n[ 'a' = 1 /* ; b = 2 */ ]": [{"a": 1}],
    "[ a = 1 ] rubbish [ b = 2 ]": [{"a": 1}],
    "[ a = 1 ; b = ": [],
    '[ a = "not ended ]': [],
    "    ": [],
}


@together("text, ads", ADS.items())
def test_ads_are_read_up_to_the_first_text_that_is_not_an_ad(text: str, ads: list[dict[str, Value]]) -> None:
    assert read_ads(text) == ads


@settings(max_examples=25)
@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.text() | st.integers() | st.booleans(), min_size=1)))
def test_ads_are_read_back_as_they_were_written(ads: list[dict[str, Value]]) -> None:
    assert read_ads(write_ads(ads)) == ads


@settings(max_examples=25)
@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_the_classad_parser_reads_the_written_ads_too(text: str) -> None:
    assert parse(write_ads([{"a": text}]) + ".a").evaluate() == text


# The plugin


class Server(BaseHTTPRequestHandler):
    """A server of texts, one of them cut short the first time, which accepts uploads."""

    came: dict[str, bytes]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path == "/none":
            self.send_error(404)
            return
        short = self.path == "/short" and self.asked.count("/short") == 1
        self.send_response(200)
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"hel" if short else b"hello\n")

    def do_PUT(self) -> None:
        self.came[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(403 if self.path == "/forbidden" else 201)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[HTTPServer]:
    handler = type("Handler", (Server,), {"came": {}, "asked": []})
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda _: None)
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run_plugin(folder: Path, *files: tuple[str, Path], upload: bool = False) -> tuple[int, list[Any]]:
    """Return the plugin's exit code and report after a request for these files."""
    request_file, result_file = folder / "requests", folder / "results"
    request_file.write_text(write_ads([{"Url": url, "LocalFileName": str(path)} for url, path in files]))
    result_file.write_text(" " * 5000)
    arguments = ("-infile", str(request_file), "-outfile", str(result_file), *(["-upload"] if upload else []))
    return url_plugin.main(*arguments), list(read_ads(result_file.read_text()))


READ = {
    "http://SERVER/a": b"hello\n",
    "http://SERVER/short": b"hello\n",
    "HTTP://SERVER/a?b=/c": b"hello\n",
    "file://FOLDER/with%20blank": b"there\n",
    "data://;base64%2CaGVsbG8=/name": b"hello",
    "data://text/plain,a%20b%0a/name": b"a b\n",
}
UNREADABLE = {
    "http://SERVER/none": "The requested URL returned error: 404",
    "http://127.0.0.1:1/a": "Failed to connect to 127.0.0.1:1: [Errno 111] Connection refused",
    "file://FOLDER/none": "Could not open file FOLDER/none",
    "data://,name": "a data: URL is data://[;base64]%2CDATA/NAME",
    "data://;base64,%%%/name": "the data of a data: URL cannot be read",
    "gopher://SERVER/a": "gopher: URLs cannot be read",
}


def test_each_download_scheme_delivers_a_whole_file_or_none(tmp_path: Path, server: HTTPServer) -> None:
    (tmp_path / "with blank").write_bytes(b"there\n")
    place = (str(tmp_path), f"127.0.0.1:{server.server_port}")
    urls = [url.replace("FOLDER", place[0]).replace("SERVER", place[1]) for url in (*READ, *UNREADABLE)]
    code, message = run_plugin(tmp_path, *((url, tmp_path / f"file{number}") for number, url in enumerate(urls)))
    assert code == 1 and [ad["transferurl"] for ad in message] == urls
    for number, data in enumerate(READ.values()):
        assert (tmp_path / f"file{number}").read_bytes() == data
        assert (message[number]["transfersuccess"], message[number]["transfertotalbytes"]) == (True, len(data))
    for number, phrase in enumerate(UNREADABLE.values(), len(READ)):
        assert not (tmp_path / f"file{number}").exists() and message[number]["transfersuccess"] is False
        assert phrase.replace("FOLDER", place[0]) in message[number]["transfererror"]


def test_each_upload_scheme_delivers_a_whole_file_or_none(tmp_path: Path, server: HTTPServer) -> None:
    target, place = tmp_path / "there", f"http://127.0.0.1:{server.server_port}"
    target.mkdir()
    (tmp_path / "a").write_bytes(b"alpha\n")
    good_urls = (f"{place}/up", f"file://{target}/new/a")
    bad_urls = {
        f"{place}/forbidden": "The requested URL returned error: 403",
        f"file://{tmp_path}/a/below": f"(errno 17) File exists {tmp_path}/a",
        "data://,x/y": "data: URLs cannot be written",
    }
    code, message = run_plugin(tmp_path, *((url, tmp_path / "a") for url in (*good_urls, *bad_urls)), upload=True)
    assert code == 1 and [ad["transfersuccess"] for ad in message] == [True] * 2 + [False] * 3
    assert [ad["transfererror"] for ad in message[2:]] == list(bad_urls.values())
    assert server.RequestHandlerClass.came["/up"] == (target / "new/a").read_bytes() == b"alpha\n"  # type: ignore[attr-defined]
    assert [path.name for path in target.rglob("*")] == ["new", "a"]
    assert run_plugin(tmp_path, (good_urls[0], tmp_path / "a"), upload=True)[0] == 0


def test_the_plugin_describes_its_abilities(capsys: pytest.CaptureFixture[str]) -> None:
    assert url_plugin.main("-classad") == 0
    assert 'SupportedMethods = "data,file,ftp,http,https"' in capsys.readouterr().out
