"""Property: a mail goes to the configured program or server, and no failure of these stops a pool."""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from poolbook.adapters.machine.mail import Mailer, MailSettings
from poolbook.adapters.runtime.local_world import LocalWorld
from poolbook.domain.config import read
from poolbook.domain.ports.stimuli import MailHandled
from poolbook.domain.ports.world import Mail

from ..schedd.policy_pool import TextFiles

MAIL = Mail(7, ("alice@example.org", "bob@there"), "[Condor] Condor Job 1.0", "It ended.\n.\nYours\n")
HEAD = "From: pool@example.org\nSubject: [Condor] Condor Job 1.0\nTo: alice@example.org, bob@there\n\n"


def program(folder: Path, lines: str) -> Path:
    path = folder / "program"
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def handled(folder: Path, config: str, *mails: Mail, patience: float = 60.0) -> list[MailHandled]:
    """Return the reports of a world with this configuration about mails that it is to send."""
    world = LocalWorld(folder / "world")
    try:
        world.configure(read(config, files=TextFiles({})))
        world._mailer.patience = patience
        for mail in mails:
            world.send(mail)
        reports: list[MailHandled] = []
        while len(reports) < len(mails):
            reports += [report for report in world.wait(None) if isinstance(report, MailHandled)]
        return reports
    finally:
        world.close()


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("SENDMAIL", f"-t -i\n{HEAD}{MAIL.text}"),
        ("MAIL", f"-s {MAIL.subject} -r pool@example.org alice@example.org bob@there\n{MAIL.text}"),
    ],
)
def test_a_program_gets_the_mail(tmp_path: Path, setting: str, expected: str) -> None:
    path = program(tmp_path, f'{{ echo "$@"; cat; }} > {tmp_path}/got')
    config = f"SENDMAIL = /none\nMAIL = /none\n{setting} = {path}\nMAIL_FROM = pool@example.org\n"
    assert handled(tmp_path, config, MAIL) == [MailHandled("mail-7", 7)]
    assert (tmp_path / "got").read_text() == expected


class _Session(socketserver.StreamRequestHandler):
    """An SMTP server's side of one connection."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        data = False
        for line in self.rfile:
            self.server.heard.append(line.decode().rstrip("\r\n"))  # type: ignore[attr-defined]
            data = line != b".\r\n" if data else line.upper().startswith(b"DATA")
            word = line[:4].upper()
            if data:
                if word == b"DATA":
                    self.wfile.write(b"354 go on\r\n")
                continue
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")


@pytest.fixture
def server() -> Iterator[socketserver.TCPServer]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Session) as server:
        server.heard = []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_an_smtp_server_gets_the_mail(tmp_path: Path, server: socketserver.TCPServer) -> None:
    config = f"SMTP_SERVER = 127.0.0.1:{server.server_address[1]}\nMAIL_FROM = pool@example.org\n"
    assert handled(tmp_path, config, MAIL) == [MailHandled("mail-7", 7)]
    received = server.heard  # type: ignore[attr-defined]
    assert [line for line in received if line.startswith(("mail FROM", "rcpt TO"))] == [
        "mail FROM:<pool@example.org>", "rcpt TO:<alice@example.org>", "rcpt TO:<bob@there>",
    ]  # fmt: skip
    begin = received.index("data") + 1
    assert received[begin : received.index(".", begin)] == [*HEAD.split("\n")[:-1], "It ended.", "..", "Yours"]


def test_a_mail_that_cannot_be_sent_is_reported(tmp_path: Path) -> None:
    failing = program(tmp_path, "echo no such domain; exit 3")
    (message,) = handled(tmp_path, f"SENDMAIL = {failing}\n", MAIL)
    assert message.failure == f"{failing} ended with 3: no such domain"
    (message,) = handled(tmp_path, "SENDMAIL = /none\nMAIL = /none\n", MAIL)
    assert message.failure.startswith("no mail program")
    (message,) = handled(tmp_path, "SMTP_SERVER = 127.0.0.1:1\n", MAIL)
    assert "127.0.0.1:1: " in message.failure


@pytest.mark.parametrize("to", [(), ("-oQ/tmp",), ("alice@example.org", "-bs")])
def test_an_invalid_address_reaches_no_program(tmp_path: Path, to: tuple[str, ...]) -> None:
    path = program(tmp_path, f"touch {tmp_path}/ran")
    (message,) = handled(tmp_path, f"SENDMAIL = {path}\n", Mail(1, to, "s", "t"))
    assert "invalid mail address" in message.failure
    assert not (tmp_path / "ran").exists()


def test_no_line_of_a_subject_becomes_a_separate_header() -> None:
    settings = MailSettings(sendmail="/bin/cat")
    head = settings.content(Mail(1, ("a@b\nBcc: c@d",), "x\r\nBcc: e@f", "t")).decode().partition("\n\n")[0]
    assert [line.partition(":")[0] for line in head.split("\n")] == ["Subject", "To"]


def test_no_line_makes_a_mail_program_run_a_command() -> None:
    text = "~! touch /tmp/x\nof ~\n~| cat\n"
    content = MailSettings(mail="/usr/bin/mail").content(Mail(1, ("a@b",), "s", text))
    assert content == b" ~! touch /tmp/x\nof ~\n ~| cat\n"


def test_a_hanging_program_is_killed_with_its_children_and_the_next_mails_are_given_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "alive")
    alive = os.open(tmp_path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    path = program(tmp_path, f"exec 3>{tmp_path}/alive; echo >&3; sleep 1000 & wait")
    first, second = handled(tmp_path, f"SENDMAIL = {path}\n", MAIL, Mail(8, MAIL.to, "s", "t"), patience=3)
    assert (first.failure, second.failure) == (
        f"{path} did not end within 3 s", "sending the previous mail timed out",
    )  # fmt: skip
    os.set_blocking(alive, True)
    assert (os.read(alive, 1), os.read(alive, 1)) == (b"\n", b""), "all that had it open are gone"
    os.close(alive)


def test_a_pool_that_is_closed_lets_a_mail_in_progress_finish(tmp_path: Path) -> None:
    path = program(tmp_path, f"sleep 0.2; cat > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/got")
    watched: dict[int, object] = {}
    mailer = Mailer(watched.__setitem__, watched.pop, lambda mail, failure: None, MailSettings(sendmail=str(path)))  # type: ignore[arg-type]
    mailer.send(MAIL)
    pid = mailer._running.process.pid  # type: ignore[union-attr]
    mailer.close()
    os.waitpid(pid, 0)
    assert (tmp_path / "got").exists()
    assert not watched
