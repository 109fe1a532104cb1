"""Small http and ftp file servers in a thread of the tests, each for one directory."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer


class _Web(BaseHTTPRequestHandler):
    """GET and PUT of the files below the server's directory."""

    folder: Path

    def _path(self) -> Path:
        return self.folder / self.path.partition("?")[0].strip("/")

    def do_GET(self) -> None:
        if not self._path().is_file():
            self.send_error(404)
            return
        data = self._path().read_bytes()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        if not self._path().parent.is_dir():
            self.send_error(409)
            return
        try:
            self._path().write_bytes(data)
        except OSError:
            self._path().unlink()
            self.send_error(507)
            return
        self.send_response(201)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


_ANSWERS = {
    "USER": "331 password?",
    "PASS": "230 welcome",
    "TYPE": "200 as you like",
    "PWD": '257 "/"',
}


class _Ftp(StreamRequestHandler):
    """The commands that a client needs to read or write a file in passive mode (RFC 959, 2428)."""

    folder: Path

    def handle(self) -> None:
        self._listener: socket.socket | None = None
        self._at = self.folder
        self._say("220 files")
        while line := self.rfile.readline().decode().strip():
            word, _, argument = line.partition(" ")
            if word.upper() == "QUIT":
                self._say("221 bye")
                return
            does = getattr(self, f"_{word.lower()}", None)
            if does is not None:
                does(argument)
            else:
                self._say(_ANSWERS.get(word.upper(), "502 not here"))

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())

    def _path(self, name: str) -> Path:
        return self._at / name.strip("/")

    def _cwd(self, name: str) -> None:
        self._at = (self.folder if name.startswith("/") else self._at) / name.strip("/")
        self._say("250 there" if self._at.is_dir() else "550 no such directory")

    def _listen(self) -> int:
        self._listener = socket.create_server(("127.0.0.1", 0))
        port: int = self._listener.getsockname()[1]
        return port

    def _epsv(self, _: str) -> None:
        self._say(f"229 here (|||{self._listen()}|)")

    def _pasv(self, _: str) -> None:
        high, low = divmod(self._listen(), 256)
        self._say(f"227 here (127,0,0,1,{high},{low})")

    def _size(self, name: str) -> None:
        path = self._path(name)
        self._say(f"213 {path.stat().st_size}" if path.is_file() else "550 no such file")

    def _retr(self, name: str) -> None:
        if not self._path(name).is_file():
            self._say("550 no such file")
            return
        with self._connected() as data:
            data.sendall(self._path(name).read_bytes())

    def _stor(self, name: str) -> None:
        if not self._path(name).parent.is_dir():
            self._say("553 no such directory")
            return
        with self._connected() as data, data.makefile("rb") as stream:
            self._path(name).write_bytes(stream.read())

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """Yield the connection for a file's bytes, and send the replies around it."""
        assert self._listener is not None
        self._say("150 now")
        try:
            with self._listener, self._listener.accept()[0] as data:
                yield data
        except OSError:
            self._say("452 no room")
        else:
            self._say("226 done")


@contextmanager
def _served(server: ThreadingTCPServer) -> Iterator[str]:
    server.daemon_threads = True
    with server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def web(folder: Path) -> Iterator[str]:
    """Serve a directory's files by http meanwhile, and accept others; yield the address."""
    with _served(ThreadingTCPServer(("127.0.0.1", 0), type("Web", (_Web,), {"folder": folder}))) as address:
        yield address


@contextmanager
def ftp(folder: Path) -> Iterator[str]:
    """Serve a directory's files by ftp, like `web`."""
    with _served(ThreadingTCPServer(("127.0.0.1", 0), type("Ftp", (_Ftp,), {"folder": folder}))) as address:
        yield address
