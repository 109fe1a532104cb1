"""Mail, by the programs and the server that the configuration names: SENDMAIL, MAIL, SMTP_SERVER.

Each mail is handed over by a process of its own, one after the other, while the pool does other things. One that takes
longer than ``PATIENCE`` is killed; what comes within ``REST`` after that is given up at once, so that a program which
hangs costs the pool nothing. Which programs run is never read from a log: another user may have written that.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import IO

from msgspec import Struct, field

from ...domain.config import Configuration
from ...domain.ports.world import Mail
from .children import Unwatch, Watch

PATIENCE = 20.0  #: seconds that a mail may take
REST = 60.0  #: seconds in which none is tried after one that took longer
_ESCAPE = re.compile("^~", re.MULTILINE)
"""How a line begins by which some programs like mail are told to run a command; who writes it is any user."""
_SAID = 300  #: bytes that are told of what a program said when it failed


class MailSettings(Struct, frozen=True):
    """How mail is sent: the first of these that there is."""

    smtp: str = ""  #: a server, HOST or HOST:PORT
    sendmail: str = ""  #: a program like sendmail, which reads the addresses in the mail's head
    mail: str = ""  #: a program like mail, which takes subject and addresses as arguments
    sender: str = ""  #: the address of the sender

    @classmethod
    def configured(cls, configuration: Configuration) -> MailSettings:
        given = (configuration.get(name).strip() for name in ("SMTP_SERVER", "SENDMAIL", "MAIL", "MAIL_FROM"))
        server, sendmail, mail, sender = given
        return cls(server, _installed(sendmail), _installed(mail), sender)

    @classmethod
    def usual(cls) -> MailSettings:
        """HTCondor's defaults."""
        return cls("", _installed("sendmail"), _installed("/usr/bin/mail"))

    def command(self, mail: Mail) -> Sequence[str]:
        """The program that sends a mail; empty: there is none."""
        if self.smtp:
            return [sys.executable, "-m", f"{__package__}.smtp", self.smtp, self.sender, *mail.to]
        if self.sendmail:
            return [self.sendmail, "-t", "-i"]
        sender = ["-r", self.sender] if self.sender else []
        return [self.mail, "-s", mail.subject, *sender, *mail.to] if self.mail else []

    def content(self, mail: Mail) -> bytes:
        """What such a program reads."""
        if self.mail and not (self.smtp or self.sendmail):
            return _ESCAPE.sub(" ~", mail.text).encode()
        heads = [("From", self.sender), ("Subject", mail.subject), ("To", ", ".join(mail.to))]
        kind = "" if mail.text.isascii() and mail.subject.isascii() else "Content-Type: text/plain; charset=utf-8\n"
        lines = "".join(f"{name}: {_on_one_line(value)}\n" for name, value in heads if value)
        return f"{lines}{kind}\n{mail.text}".encode()


def _installed(program: str) -> str:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/lib"
    return shutil.which(program, path=path) or ""


def _on_one_line(value: str) -> str:
    return "".join(letter if letter >= " " else " " for letter in value)


class _Running(Struct):
    """A program that sends a mail."""

    mail: Mail
    program: str
    process: subprocess.Popen[bytes]
    said: IO[bytes]
    end: int  #: a descriptor that can be read when it has ended
    until: float


class Mailer(Struct):
    """``done`` is called with each mail that was sent, or could not be, and why (empty: it was sent)."""

    watch: Watch
    unwatch: Unwatch
    done: Callable[[Mail, str], None]
    settings: MailSettings = field(default_factory=MailSettings.usual)
    patience: float = PATIENCE
    _waiting: deque[Mail] = field(default_factory=deque)
    _running: _Running | None = None
    _rests_until: float = 0.0

    def send(self, mail: Mail) -> None:
        self._waiting.append(mail)
        self._go_on()

    def next(self) -> float | None:
        """In how many seconds ``turn`` has something to do; None: it has nothing to do until a program ends."""
        return None if self._running is None else max(0.0, self._running.until - time.monotonic())

    def turn(self) -> None:
        """Kill a program that has had its time."""
        running = self._running
        if running is None or time.monotonic() < running.until:
            return
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
        self._rests_until = time.monotonic() + REST
        self._over(f"{running.program} did not end within {self.patience:.0f} s")

    def close(self) -> None:
        """Leave the program that runs alone; what was not sent is still in the log."""
        if self._running is not None:
            self.unwatch(self._running.end)
            os.close(self._running.end)
            self._running.said.close()
            self._running = None
        self._waiting.clear()

    def _go_on(self) -> None:
        while self._waiting and self._running is None:
            mail = self._waiting.popleft()
            failure = self._start(mail)
            if failure:
                self.done(mail, failure)

    def _start(self, mail: Mail) -> str:
        """Start to send a mail; return why that cannot be."""
        if time.monotonic() < self._rests_until:
            return "the mail before it did not go out in time"
        if not mail.to or any(address.startswith("-") for address in mail.to):
            return f"{', '.join(mail.to) or 'nothing'} is no address"
        command = self.settings.command(mail)
        if not command:
            return "there is no mail program: SENDMAIL, MAIL and SMTP_SERVER name none that is installed"
        said = tempfile.TemporaryFile()  # noqa: SIM115  # until the program has ended
        try:
            with tempfile.TemporaryFile() as content:
                content.write(self.settings.content(mail))
                content.seek(0)
                process = subprocess.Popen(command, stdin=content, stdout=said, stderr=said, start_new_session=True)
        except (OSError, ValueError) as error:
            said.close()
            return f"{command[0]}: {error}"
        end = os.pidfd_open(process.pid)
        self._running = _Running(mail, command[0], process, said, end, time.monotonic() + self.patience)
        self.watch(end, self._ended)
        return ""

    def _ended(self) -> None:
        running = self._running
        assert running is not None
        status = running.process.wait()
        running.said.seek(0)
        said = running.said.read(_SAID).decode(errors="replace").strip()
        self._over("" if status == 0 else f"{running.program} ended with {status}{f': {said}' if said else ''}")

    def _over(self, failure: str) -> None:
        running, self._running = self._running, None
        assert running is not None
        self.unwatch(running.end)
        os.close(running.end)
        running.said.close()
        self.done(running.mail, failure)
        self._go_on()
