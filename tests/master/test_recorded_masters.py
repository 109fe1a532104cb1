"""golden: the master starts, stops and mails as HTCondor's master did in recordings, at the same times.

The recorded logs (HTCondor 25.14.1) lack the lines about the collector. The daemon FLAKY exits a second after its
start, the program of MISSING does not exist, and the startd is killed by signals 11, 6 and 9. In the second recording,
the file of the master's program changes twice. SHARED_PORT, which Poolbook does not need, is left out.
"""

from __future__ import annotations

import calendar
import gzip
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from poolbook.domain.master import transitions as t
from poolbook.domain.master.master_settings import BackOff, MasterPolicy
from poolbook.domain.master.obituary import obituary
from poolbook.domain.master.supervision import Supervision
from poolbook.domain.units import SECOND

DATA = Path(__file__).parent.parent / "data" / "master"
FIRST = MasterPolicy(check_interval=10, new_binary_delay=5)
LATER = MasterPolicy(BackOff(2, 1.5, 12, 20), check_interval=10, new_binary_delay=5)
PEACEFUL = MasterPolicy(check_interval=10, new_binary_delay=5, new_binary="Peaceful")


class Line(NamedTuple):
    at: int  #: microseconds since the epoch
    text: str


def log_lines(name: str) -> Iterator[Line]:
    for line in (DATA / name).read_text().splitlines():
        if re.match(r"\d\d/\d\d/\d\d \d\d:\d\d:\d\d ", line) and "shared_port" not in line.lower():
            yield Line(calendar.timegm(time.strptime(line[:17], "%m/%d/%y %H:%M:%S")) * SECOND, line[18:])


class Machine:
    """A supervision that learns from a recorded log what happened, and the decisions that this log contains."""

    def __init__(self, daemons: tuple[str, ...], policies: list[MasterPolicy]) -> None:
        self.daemons, self.policies = daemons, policies
        self.supervision = Supervision(self.policies.pop(0))
        self.decisions: list[tuple[int, str]] = []
        self.recorded: list[tuple[int, str]] = []
        self.programs: dict[str, str] = {}
        self._launched = ""
        self._clock = 0

    def follow(self, name: str) -> None:
        for line in log_lines(name):
            for now in range(self._clock or line.at, line.at + 1, SECOND):
                self._decide(self.supervision.tick(now))
            self._clock = line.at
            for pattern, handle in HANDLERS.items():
                if match := re.search(pattern, line.text):
                    handle(self, line.at, *match.groups())

    def _decide(self, transitions: list[t.Transition]) -> None:
        for transition in transitions:
            if text := decision_text(transition):
                self.decisions.append((transition.at, text))

    def begin(self, at: int) -> None:
        self._decide(self.supervision.begin(at, "1", self.daemons, ("STARTD",)))

    def launch(self, at: int, daemon: str) -> None:
        self._launched = daemon
        self.recorded.append((at, f"start {daemon}"))

    def started(self, at: int, program: str, pid: str) -> None:
        self.programs[program] = self._launched
        self._decide(self.supervision.started(at, self._launched, int(pid)))

    def not_started(self, at: int, program: str) -> None:
        self.programs[program] = self._launched
        self._decide(self.supervision.not_started(at, self._launched, "No such file"))

    def exited(self, at: int, daemon: str, code: str) -> None:
        self._decide(self.supervision.exited(at, daemon, int(code)))

    def died(self, at: int, daemon: str, number: str) -> None:
        self._decide(self.supervision.exited(at, daemon, -int(number)))

    def restarts(self, at: int, program: str, seconds: str) -> None:
        self.recorded.append((at, f"wait {seconds} s for {self.programs[program]}"))

    def mails(self, at: int, program: str) -> None:
        self.recorded.append((at, f"mail about {self.programs[program]}"))

    def reconfigure(self, at: int) -> None:
        self.supervision.policy = self.policies.pop(0)
        self._decide(self.supervision.reconfigure(at, self.daemons, ("STARTD",)))

    def restart(self, at: int) -> None:
        self._decide(self.supervision.end(at, "Restart", "Graceful"))

    def end(self, at: int) -> None:
        self._decide(self.supervision.end(at, "Exit", "Graceful"))

    def stop(self, at: int, daemon: str) -> None:
        self._decide(self.supervision.off(at, [daemon], "Graceful"))

    def sigterm(self, at: int, daemon: str) -> None:
        self.recorded.append((at, f"stop {daemon}"))

    def modified(self, at: int) -> None:
        assert self.supervision.next_version_check(at - 1) == at
        self._decide(self.supervision.new_version(at, "2"))

    def executed(self, at: int) -> None:
        self.recorded.append((at, "run the new master"))


HANDLERS: dict[str, Callable[..., None]] = {
    r"condor_master \(CONDOR_MASTER\) STARTING UP": Machine.begin,
    r"::RealStart; (\w+)": Machine.launch,
    r'Started (?:DaemonCore )?process "(\S+)", pid and pgroup = (\d+)': Machine.started,
    r"^(\S+): Cannot execute": Machine.not_started,
    r"The (\w+) \(pid \d+\) exited with status (\d+)": Machine.exited,
    r"The (\w+) \(pid \d+\) died due to signal (\d+)": Machine.died,
    r"^restarting (\S+) in (\d+) seconds": Machine.restarts,
    r'Sending obituary for "(\S+)"': Machine.mails,
    r"Reconfiguring all managed daemons": Machine.reconfigure,
    r"Handling admin command RESTART": Machine.restart,
    r"Got SIGTERM": Machine.end,
    r"Handling DAEMON_OFF command for (\w+)": Machine.stop,
    r"Sent SIGTERM to (\w+)": Machine.sigterm,
    r"was modified": Machine.modified,
    r"Doing exec": Machine.executed,
}


def decision_text(transition: t.Transition) -> str:
    match transition:
        case t.DaemonLaunched(_, daemon):
            return f"start {daemon}"
        case t.RestartScheduled(_, daemon, seconds):
            return f"wait {seconds} s for {daemon}"
        case t.ObituaryDue(_, daemon):
            return f"mail about {daemon}"
        case t.StopBegan(_, daemon):
            return f"stop {daemon}"
        case t.MasterEnded(_, "Restart"):
            return "run the new master"
    return ""


def test_daemons_that_die_are_started_again_and_mailed_as_recorded() -> None:
    machine = Machine(("STARTD", "FLAKY", "MISSING"), [FIRST, LATER])
    machine.follow("10.MasterLog")
    assert sorted(machine.decisions) == sorted(machine.recorded)
    waits = [text for _, text in machine.recorded if text.endswith("for MISSING")]
    assert [int(text.split()[1]) for text in waits] == [
        10, 11, 13, 17, 25, 41, 73, 12, 12, 12, 3, 4, 5, 6, 8, 10, 12, 12,
    ]  # fmt: skip
    assert sum(text == "mail about FLAKY" for _, text in machine.recorded) == 8


def test_a_new_version_restarts_the_master_at_the_recorded_times() -> None:
    """HTCondor asks the startd to wait for its jobs, and sends SIGTERM 6 s later. Poolbook does so with one signal."""
    machine = Machine(("STARTD",), [FIRST, PEACEFUL])
    machine.follow("10b.MasterLog")
    peaceful = [at for at, text in machine.recorded if text == "stop STARTD"][-1]
    assert (peaceful - 6 * SECOND, "stop STARTD") in machine.decisions
    recorded = [(at - 6 * SECOND if at == peaceful else at, text) for at, text in machine.recorded]
    assert sorted(machine.decisions) == sorted(recorded)
    assert sum(text == "run the new master" for _, text in machine.recorded) == 2


def recorded_mails() -> list[tuple[str, list[str], str]]:
    """Return the subject, the text between heading and signature, and the address of each recorded mail."""
    text = gzip.decompress((DATA / "mail.txt.gz").read_bytes()).decode()
    mails = []
    for mail in text.split("=== end\n")[:-1]:
        head, _, body = mail.partition("--- body\n")
        _, option, subject, address = head.splitlines()
        assert option == "  [-s]"
        text_lines = body.partition("Do not reply.\n\n")[2].partition("\n-=-=")[0].rstrip("\n").splitlines()
        mails.append((subject[3:-1], text_lines, address[3:-1]))
    return mails


def test_mails_have_the_recorded_subjects_and_sentences() -> None:
    waits = iter([10, 11, 13, 17, 10, 11, 3, 4, 5, 6])
    mails = recorded_mails()
    assert len(mails) == 10
    for subject, lines, address in mails:
        match = re.search(r"\((\d+)\)$", subject)
        assert match is not None
        code = -int(match[1]) if "died" in subject else int(match[1])
        death = t.ObituaryDue(0, "X", code, next(waits))
        program = re.match(r'"([^"]+)"', lines[0])
        assert program is not None
        tail = lines[4:-1] if len(lines) > 2 else []
        log = "/var/log/condor/StartLog"
        settings = {"CONDOR_ADMIN": "admin@poola.example"}
        made_subject, made = obituary(death, program[1], "ep1.poola.example", settings, log, tail, 200)
        assert made_subject == subject
        assert "\n".join(lines) in made and address in made


@pytest.mark.parametrize(("code", "mails"), [(0, 0), (-9, 0), (99, 0), (1, 1), (-11, 1)])
def test_no_mail_is_sent_for_the_ends_that_an_administrator_causes(code: int, mails: int) -> None:
    supervision = Supervision(MasterPolicy())
    supervision.begin(0, "1", ["STARTD"])
    supervision.started(0, "STARTD", 1)
    made = supervision.exited(SECOND, "STARTD", code)
    assert sum(isinstance(transition, t.ObituaryDue) for transition in made) == mails
