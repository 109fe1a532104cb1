"""Golden: the time of the last input at an X server (Xvfb), compared with Xlib's, which condor_kbdd uses."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.sensors import Sensors
from poolbook.adapters.machine.x_display import XDisplay, cookies
from poolbook.domain.config import read

SECOND = 1_000_000
pytestmark = pytest.mark.skipif(shutil.which("Xvfb") is None, reason="needs Xvfb")


def now() -> int:
    return time.time_ns() // 1000


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """A display that only clients with the cookie in XAUTHORITY may use."""
    cookie = os.urandom(16)
    authority = tmp_path / "authority"
    reading, writing = os.pipe()
    number = b""
    # The file must exist before the server, which chooses its number itself.
    authority.write_bytes(_entry(b"", cookie))
    process = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writing), "-nolisten", "tcp", "-auth", str(authority)],
        pass_fds=[writing], stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        number = file.readline().strip()
    monkeypatch.setenv("XAUTHORITY", str(authority))
    authority.write_bytes(_entry(number, cookie))
    try:
        yield f":{number.decode()}", process
    finally:
        process.kill()
        process.wait()


def _entry(number: bytes, cookie: bytes) -> bytes:
    fields = (os.uname().nodename.encode(), number, b"MIT-MAGIC-COOKIE-1", cookie)
    return struct.pack(">H", 256) + b"".join(struct.pack(">H", len(field)) + field for field in fields)


class _Info(ctypes.Structure):
    _fields_ = (
        ("window", ctypes.c_ulong), ("state", ctypes.c_int), ("kind", ctypes.c_int), ("since", ctypes.c_ulong),
        ("idle", ctypes.c_ulong), ("event_mask", ctypes.c_ulong),
    )  # fmt: skip


def idle_by_xlib(display: str) -> int:
    """Return the milliseconds without input, as the library that condor_kbdd uses reports them."""
    x11, xss = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXss.so.1")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    assert connection.value
    x11.XDefaultRootWindow.restype = ctypes.c_ulong
    xss.XScreenSaverAllocInfo.restype = ctypes.POINTER(_Info)
    info = xss.XScreenSaverAllocInfo()
    assert xss.XScreenSaverQueryInfo(connection, ctypes.c_ulong(x11.XDefaultRootWindow(connection)), info)
    x11.XCloseDisplay(connection)
    return int(info.contents.idle)


def known_input(display: XDisplay) -> int:
    """Return the instant of the last input. A busy machine's server may answer too late at first."""
    end = time.monotonic() + 150
    while (instant := display.last_input(now())) is None:
        assert time.monotonic() < end
        time.sleep(0.1)
    return instant


def press_key(display: str) -> None:
    """Press and release a key through the extension XTEST."""
    x11, xtst = ctypes.CDLL("libX11.so.6"), ctypes.CDLL("libXtst.so.6")
    x11.XOpenDisplay.restype = ctypes.c_void_p
    connection = ctypes.c_void_p(x11.XOpenDisplay(display.encode()))
    for is_press in (1, 0):
        xtst.XTestFakeKeyEvent(connection, ctypes.c_uint(38), is_press, ctypes.c_ulong(0))
    x11.XSync(connection, 0)
    x11.XCloseDisplay(connection)


def has_library(name: str) -> bool:
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True


@pytest.mark.skipif(not has_library("libXss.so.1"), reason="needs libXss")
def test_the_last_input_is_the_one_that_xlib_reports(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    display = XDisplay(server[0])
    before = now() - (idle_by_xlib(server[0]) + 1) * 1000
    asked_at = now()
    last_input = known_input(display)
    waited = now() - asked_at
    idle = idle_by_xlib(server[0])
    after = now() - idle * 1000  # not earlier than the input, however long the call took
    assert before - waited - 5000 <= last_input <= after + 5000
    display.close()


@pytest.mark.skipif(not has_library("libXtst.so.6"), reason="needs libXtst")
def test_a_pressed_key_is_input(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    display = XDisplay(server[0])
    known_input(display)
    pressed_at = now()
    press_key(server[0])
    assert known_input(display) >= pressed_at - 20_000


def test_a_server_that_ends_makes_the_last_input_unknown(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    display = XDisplay(server[0])
    known_input(display)
    server[1].kill()
    server[1].wait()
    assert display.last_input(now()) is None
    assert display.last_input(now() + 60 * SECOND) is None


def test_a_client_without_the_cookie_is_refused(
    server: tuple[str, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(cookies(server[0]))
    monkeypatch.setenv("XAUTHORITY", "/nonexistent")
    monkeypatch.setattr("poolbook.adapters.machine.x_display._AUTHORITY_FILES", ())
    assert XDisplay(server[0]).last_input(now()) is None


def test_the_sensors_include_the_x_server(server: tuple[str, subprocess.Popen[bytes]]) -> None:
    without = Sensors.from_configuration(read("CONSOLE_DEVICES =", subsystem="STARTD"))
    sensors = Sensors.from_configuration(
        read(f"CONSOLE_DEVICES =\nX_CONSOLE_DISPLAY = {server[0]}.0", subsystem="STARTD")
    )
    assert sensors.read(now(), {}).last_console is not None
    assert without.read(now(), {}).last_console is None
    sensors.close()
