"""Texts that somebody made up: expressions, submit files, configurations, command lines, recorded pools."""

from __future__ import annotations

import gzip
import shutil
from contextlib import suppress

from hypothesis import strategies as st

from poolbook.adapters.cli.main import COMMANDS
from poolbook.domain.classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from poolbook.domain.classad.unparse import unparse_exactly

from ..classad import strategies as classads
from ..config.test_properties import TEXTS as CONFIGURATIONS
from ..config.test_properties import taken
from ..importing.folders import TRACES
from ..submit.test_properties import TEXTS as SUBMIT_FILES
from ..submit.test_properties import outcome
from ..tools.test_options import COMMANDS as OPTIONS
from ..tools.test_robustness import lines_of
from .attacks import Trial, attack
from .calls import called

# No word of a command line holds a zero: the system ends it there.
_WORKS = {"run", "resume", "serve", "follow", "doc", "man"}
"""Commands that work until they are stopped, or ask a terminal."""
ODD = ["", "\x01", "\udcff", "\u202e", "-", "--", "%s%n", "1.0", "2.x", "-9" * 40, "'", "${A}", "../../x", "a b", "*"]


def _read_again(text: str) -> None:
    """What is read is told in the same words once it was told, and evaluates to something."""
    try:
        expression = parse(text)
    except ClassAdSyntaxError:
        return
    written = unparse_exactly(expression)
    assert unparse_exactly(parse(written)) == written, (text, written)
    with suppress(EvaluationError):
        ClassAd({"A": expression}).eval("A")


@attack(
    "expressions",
    promise="Any text is an expression or rejected; the text of a parsed expression parses to the same expression.",
    fails="an error of another kind, or another expression",
)
def _expressions(trial: Trial) -> None:
    trial.draw(st.one_of(classads.texts(), st.text(max_size=60)), _read_again, 400)


@attack(
    "submit-files",
    promise="Any text is a submission, or is rejected with a message.",
    fails="an error of another kind",
)
def _submit_files(trial: Trial) -> None:
    trial.draw(SUBMIT_FILES, outcome, 300)


@attack(
    "configurations",
    promise="Any text is a configuration, or is rejected with a message.",
    fails="an error of another kind",
)
def _configurations(trial: Trial) -> None:
    trial.draw(CONFIGURATIONS, taken, 300)


@attack(
    "command-lines",
    promise="Any command line is executed, or is rejected with a message.",
    fails="exit code 3, or a traceback",
)
def _command_lines(trial: Trial) -> None:
    folder, chance = trial.folder, trial.chance
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue 2\n")
    folder.call("submit", "job.sub")
    known = st.one_of(*(st.tuples(st.just(name), lines_of(name)) for name in sorted(OPTIONS)))
    drawn: list[list[str]] = []
    trial.draw(known, lambda pair: drawn.append([pair[0], *pair[1]]), 150)
    names = sorted(set(COMMANDS) - _WORKS)
    drawn = [[word.replace("\0", "") for word in words] for words in drawn if words[0] in names]
    for _ in range(150):
        words = [chance.choice(ODD) for _ in range(chance.randint(0, 4))]
        drawn.append([chance.choice(names), *words])
    trial.tries = len(drawn)
    called(folder, drawn)


@attack(
    "recorded-pools",
    promise="Any changes in an HTCondor pool's records: they are imported and audited, or rejected with a message.",
    fails="exit code 3, a traceback, or a log that is not sealed",
)
def _recorded_pools(trial: Trial) -> None:
    chance = trial.chance
    recorded = chance.choice(sorted(path for path in TRACES.iterdir() if path.is_dir()))
    shutil.copytree(recorded, trial.path / "pool")
    files = sorted(path for path in (trial.path / "pool").rglob("*") if path.is_file() and path.stat().st_size)
    for file in chance.sample(files, min(len(files), chance.randint(1, 6))):
        packed = file.suffix == ".gz"
        content = bytearray(gzip.decompress(file.read_bytes()) if packed else file.read_bytes())
        for _ in range(chance.randint(1, 30)):
            at = chance.randrange(len(content) + 1)
            upto = at + chance.choice([0, 1, 1, 4, chance.randint(0, 200)])
            new = chance.choice(
                [b"", chance.randbytes(3), b"\n", b"\0", b"...", b"9" * 30, bytes(content[at:upto]) * 2]
            )
            content[at:upto] = new
        whole = gzip.compress(bytes(content)) if packed else bytes(content)
        file.write_bytes(whole[: chance.randint(0, len(whole))] if packed and chance.random() < 0.1 else whole)
    reads = [["audit"], ["audit", "-all"], ["log"], ["q"], ["history", "-long"], ["usage"], ["why", "1.0"], ["status"]]
    calls = [["import", "pool"], *reads, ["verify"]]
    trial.tries = len(calls)
    done = called(trial.folder, calls)
    assert done[0].code in (0, 1)
    if (trial.path / "pool.db").exists():
        assert done[-1].code == 0, done[-1]
