"""Send mail with the programs or the server of the configuration: SENDMAIL, MAIL, SMTP_SERVER.

A separate process sends each mail, one after the other, while the pool continues. One that takes longer than
``PATIENCE`` is killed; for ``PAUSE`` after that, mails fail immediately, so that a hanging program does not delay the
pool. The programs are never read from a log, because another user may have written the log.
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

PATIENCE = 20.0  #: maximum number of seconds that a mail may take
PAUSE = 60.0  #: after a timeout, seconds without another try
_ESCAPE = re.compile("^~", re.MULTILINE)
"""The start of a line that makes some mail programs run a command; any user may have written the text."""
_QUOTED = 300  #: maximum number of bytes of a failed program's output to report


class MailSettings(Struct, frozen=True):
    """The ways to send mail; the first one that is set applies."""

    smtp: str = ""  #: a server, HOST or HOST:PORT
    sendmail: str = ""  #: a program like sendmail, which reads the addresses from the mail's header
    mail: str = ""  #: a program like mail, which takes subject and addresses as arguments
    sender: str = ""  #: the address of the sender

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> MailSettings:
        setting_texts = (configuration.get(name).strip() for name in ("SMTP_SERVER", "SENDMAIL", "MAIL", "MAIL_FROM"))
        server, sendmail, mail, sender = setting_texts
        return cls(server, _installed_program(sendmail), _installed_program(mail), sender)

    @classmethod
    def defaults(cls) -> MailSettings:
        return cls("", _installed_program("sendmail"), _installed_program("/usr/bin/mail"))

    def command(self, mail: Mail) -> Sequence[str]:
        """Return the command that sends a mail, or an empty sequence if none is configured."""
        if self.smtp:
            return [sys.executable, "-m", f"{__package__}.smtp", self.smtp, self.sender, *mail.to]
        if self.sendmail:
            return [self.sendmail, "-t", "-i"]
        sender = ["-r", self.sender] if self.sender else []
        return [self.mail, "-s", mail.subject, *sender, *mail.to] if self.mail else []

    def content(self, mail: Mail) -> bytes:
        """Return the text of a mail for the program's standard input."""
        if self.mail and not (self.smtp or self.sendmail):
            return _ESCAPE.sub(" ~", mail.text).encode()
        header_pairs = [("From", self.sender), ("Subject", mail.subject), ("To", ", ".join(mail.to))]
        kind = "" if mail.text.isascii() and mail.subject.isascii() else "Content-Type: text/plain; charset=utf-8\n"
        lines = "".join(f"{name}: {_on_one_line(value)}\n" for name, value in header_pairs if value)
        return f"{lines}{kind}\n{mail.text}".encode()


def _installed_program(program: str) -> str:
    path = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/usr/lib"
    return shutil.which(program, path=path) or ""


def _on_one_line(value: str) -> str:
    return "".join(letter if letter >= " " else " " for letter in value)


class _MailProcess(Struct):
    mail: Mail
    program: str
    process: subprocess.Popen[bytes]
    output: IO[bytes]
    end: int  #: a descriptor that is readable when the program has ended
    until: float


class Mailer(Struct):
    """Sends mails one after the other. It calls ``done`` with each mail and the error (empty: the mail was sent)."""

    watch: Watch
    unwatch: Unwatch
    done: Callable[[Mail, str], None]
    settings: MailSettings = field(default_factory=MailSettings.defaults)
    patience: float = PATIENCE
    _waiting: deque[Mail] = field(default_factory=deque)
    _running: _MailProcess | None = None
    _paused_until: float = 0.0

    def send(self, mail: Mail) -> None:
        self._waiting.append(mail)
        self._start_next()

    def seconds_to_deadline(self) -> float | None:
        """Return the seconds until ``turn`` must be called, or None if no program is running."""
        return None if self._running is None else max(0.0, self._running.until - time.monotonic())

    def end_overdue_program(self) -> None:
        running = self._running
        if running is None or time.monotonic() < running.until:
            return
        with suppress(ProcessLookupError):
            os.killpg(running.process.pid, signal.SIGKILL)
        running.process.wait()
        self._paused_until = time.monotonic() + PAUSE
        self._finish(f"{running.program} did not end within {self.patience:.0f} s")

    def close(self) -> None:
        """Detach from the running program; mails that were not sent are still in the log."""
        if self._running is not None:
            self.unwatch(self._running.end)
            os.close(self._running.end)
            self._running.output.close()
            self._running = None
        self._waiting.clear()

    def _start_next(self) -> None:
        while self._waiting and self._running is None:
            mail = self._waiting.popleft()
            failure = self._start_program(mail)
            if failure:
                self.done(mail, failure)

    def _start_program(self, mail: Mail) -> str:
        """Start to send a mail; return the error, or an empty string if the program was started."""
        if time.monotonic() < self._paused_until:
            return "sending the previous mail timed out"
        if not mail.to or any(address.startswith("-") for address in mail.to):
            return f"invalid mail address: {', '.join(mail.to) or 'none'}"
        command = self.settings.command(mail)
        if not command:
            return "no mail program: install one, or set SENDMAIL, MAIL or SMTP_SERVER"
        output = tempfile.TemporaryFile()  # noqa: SIM115  # closed after the program has ended
        try:
            with tempfile.TemporaryFile() as content:
                content.write(self.settings.content(mail))
                content.seek(0)
                process = subprocess.Popen(command, stdin=content, stdout=output, stderr=output, start_new_session=True)
        except (OSError, ValueError) as error:
            output.close()
            return f"{command[0]}: {error}"
        end = os.pidfd_open(process.pid)
        self._running = _MailProcess(mail, command[0], process, output, end, time.monotonic() + self.patience)
        self.watch(end, self._after_exit)
        return ""

    def _after_exit(self) -> None:
        running = self._running
        assert running is not None
        status = running.process.wait()
        running.output.seek(0)
        output = running.output.read(_QUOTED).decode(errors="replace").strip()
        self._finish("" if status == 0 else f"{running.program} ended with {status}{f': {output}' if output else ''}")

    def _finish(self, failure: str) -> None:
        running, self._running = self._running, None
        assert running is not None
        self.unwatch(running.end)
        os.close(running.end)
        running.output.close()
        self.done(running.mail, failure)
        self._start_next()
