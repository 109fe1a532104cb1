"""The submit files of tests/data/beside, and the commands for their jobs, which a file's comments give.

 ``# when 001: hold -reason 'not now'`` waits until the job's log has a further event 001 (or until the file of that
name is not empty; - does not wait), and then calls the command, with the job's cluster as its last argument. First
words such as .1 name processes instead; sh calls a program, nothing only waits. ``# until 012`` names the event that
ends the story: 005 or 009 by default. ``# until 009 of 1`` gives the number of jobs, if not all that the submit file
queues.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from attrs import frozen

FOLDER = Path(__file__).parents[1] / "data" / "beside"
_STEP = re.compile(r"# when (\S+): (.*)")
_END = re.compile(r"# until ([\d ]+?)(?: of (\d+))?$", re.MULTILINE)

PLUGIN = r"""#!/usr/bin/python3
# A file transfer plugin: what a URL's path says is done (fail, killed, hang); else a file comes from it, or goes there.
import os, re, shutil, sys, time
if sys.argv[1:] == ["-classad"]:
    print('MultipleFileSupport = true\nPluginType = "FileTransfer"\nSupportedMethods = "own"\nProtocolVersion = 2')
    sys.exit()
asked, answer = (open(sys.argv[sys.argv.index(name) + 1], mode) for name, mode in (("-infile", "r"), ("-outfile", "w")))
for ad in re.findall(r"\[(.*?)\]", asked.read(), re.DOTALL):
    url, name = (re.search(rf'\b{key} *= *"([^"]*)"', ad)[1] for key in ("Url", "LocalFileName"))
    place, _, does = url.partition("://")[2].rpartition("/")
    if does == "killed":
        os.kill(os.getpid(), 9)
    elif does == "hang":
        open(f"{place}/hangs", "w").write("here")
        time.sleep(600)
    elif "-upload" in sys.argv and does != "fail":
        shutil.copyfile(name, f"{place}/{does}")
    elif does != "fail":
        open(name, "w").write(f"of {url}\n")
    good = str(does != "fail").lower()
    answer.write(f'[ TransferSuccess = {good}; TransferUrl = "{url}"; TransferFileName = "{name}";')
    answer.write('TransferError = "it does not want to"; TransferProtocol = "own"; TransferTotalBytes = 17 ] ')
    answer.flush()
    if does == "fail":
        sys.exit(1)
"""

FILES = {
    "a.in": (0o644, "alpha\n"),
    "b.in": (0o644, "beta\n"),
    "gone.in": (0o644, "gone\n"),
    "hollow": (0o644, ""),
    "secret": (0o600, "secret\n"),
    "two words": (0o644, "blank\n"),
    "twin/two": (0o644, "another two\n"),
    "plain": (0o644, "#!/bin/sh\n"),
    "says": (
        0o755,
        "#!/bin/sh\nbasename $0\n"
        "test $PWD = $_CONDOR_SCRATCH_DIR -a $PWD = $_CONDOR_JOB_IWD && echo in its own place\n",
    ),
    "tree/one": (0o644, "one\n"),
    "tree/deep/two": (0o644, "two\n"),
    "lost": (0o755, "#!/no/such/interpreter\n"),
    "text": (0o755, "no program\n"),
    "dies": (0o755, "#!/bin/sh\nkill -9 $$\n"),
    "again": (
        0o755,
        "#!/bin/sh\necho try >> $_CONDOR_JOB_IWD/tries\ntest $(wc -l < $_CONDOR_JOB_IWD/tries) -gt 1 || kill -9 $$\n",
    ),
    "waits": (0o755, "#!/bin/sh\nwhile ! test -e $_CONDOR_JOB_IWD/go; do sleep 0.1; done\n"),
    "traps": (0o755, "#!/bin/sh\ntrap 'echo told; exit 0' USR1\necho ready\nwhile :; do sleep 0.1; done\n"),
    "own_plugin": (0o755, PLUGIN),
}
"""The content of each job's folder: permissions and text."""
FOLDERS = ("gone", "tree", "tree/deep", "twin", "void")
LINKS = {"linked": "b.in", "way": "tree"}


@frozen
class Step:
    """A command that is called when ``sign`` appears."""

    sign: str  #: an event's number, or a file
    words: tuple[str, ...]


@frozen
class Case:
    """A submit file with its story."""

    name: str
    text: str
    steps: tuple[Step, ...]
    ends: frozenset[str]  #: the numbers of the events that end it
    jobs: int | None = None  #: the number of these jobs; None: all that it queues


def _case(path: Path) -> Case:
    text = path.read_text(encoding="utf-8")
    steps = tuple(Step(sign, tuple(shlex.split(command))) for sign, command in _STEP.findall(text))
    end = _END.search(text)
    ends, jobs = (end[1].split(), end[2]) if end else (("005", "009"), None)
    return Case(path.stem, text, steps, frozenset(ends), int(jobs) if jobs else None)


def cases() -> list[Case]:
    """Return all cases, by name."""
    return [_case(path) for path in sorted(FOLDER.glob("*.sub"))]
