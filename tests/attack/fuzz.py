"""Attacks: random expressions, submit files, configurations, command lines, and changes to recorded pools."""

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
from ..config.test_properties import read_or_none
from ..importing.folders import TRACES
from ..submit.test_properties import TEXTS as SUBMIT_FILES
from ..submit.test_properties import parse_or_none
from ..tools.test_options import COMMANDS as OPTIONS
from ..tools.test_robustness import lines_of
from .attacks import Trial, attack
from .calls import run_calls

# No argument contains a null byte, because the system ends an argument there.
_NEVER_END = {"run", "resume", "serve", "follow", "doc", "man"}
"""Commands that run until they are stopped, or read from a terminal."""
ODD = ["", "\x01", "\udcff", "\u202e", "-", "--", "%s%n", "1.0", "2.x", "-9" * 40, "'", "${A}", "../../x", "a b", "*"]


def _parse_twice(text: str) -> None:
    """Check that an expression, unparsed and parsed again, unparses to the same text, and evaluates."""
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
    trial.draw(st.one_of(classads.texts(), st.text(max_size=60)), _parse_twice, 400)


@attack(
    "submit-files",
    promise="Any text is a submission, or is rejected with a message.",
    fails="an error of another kind",
)
def _submit_files(trial: Trial) -> None:
    trial.draw(SUBMIT_FILES, parse_or_none, 300)


@attack(
    "configurations",
    promise="Any text is a configuration, or is rejected with a message.",
    fails="an error of another kind",
)
def _configurations(trial: Trial) -> None:
    trial.draw(CONFIGURATIONS, read_or_none, 300)


@attack(
    "command-lines",
    promise="Any command line is executed, or is rejected with a message.",
    fails="exit code 3, or a traceback",
)
def _command_lines(trial: Trial) -> None:
    folder, rng = trial.folder, trial.rng
    folder.write("job.sub", "executable = /bin/true\nhold = true\nqueue 2\n")
    folder.call("submit", "job.sub")
    known = st.one_of(*(st.tuples(st.just(name), lines_of(name)) for name in sorted(OPTIONS)))
    lines: list[list[str]] = []
    trial.draw(known, lambda pair: lines.append([pair[0], *pair[1]]), 150)
    names = sorted(set(COMMANDS) - _NEVER_END)
    lines = [[argument.replace("\0", "") for argument in line] for line in lines if line[0] in names]
    for _ in range(150):
        arguments = [rng.choice(ODD) for _ in range(rng.randint(0, 4))]
        lines.append([rng.choice(names), *arguments])
    trial.tries = len(lines)
    run_calls(folder, lines)


@attack(
    "recorded-pools",
    promise="Any changes in an HTCondor pool's records: they are imported and audited, or rejected with a message.",
    fails="exit code 3, a traceback, or a log that is not sealed",
)
def _recorded_pools(trial: Trial) -> None:
    rng = trial.rng
    recorded = rng.choice(sorted(path for path in TRACES.iterdir() if path.is_dir()))
    shutil.copytree(recorded, trial.path / "pool")
    files = sorted(path for path in (trial.path / "pool").rglob("*") if path.is_file() and path.stat().st_size)
    for file in rng.sample(files, min(len(files), rng.randint(1, 6))):
        is_gzipped = file.suffix == ".gz"
        content = bytearray(gzip.decompress(file.read_bytes()) if is_gzipped else file.read_bytes())
        for _ in range(rng.randint(1, 30)):
            start = rng.randrange(len(content) + 1)
            end = start + rng.choice([0, 1, 1, 4, rng.randint(0, 200)])
            content[start:end] = rng.choice(
                [b"", rng.randbytes(3), b"\n", b"\0", b"...", b"9" * 30, bytes(content[start:end]) * 2]
            )
        data = gzip.compress(bytes(content)) if is_gzipped else bytes(content)
        file.write_bytes(data[: rng.randint(0, len(data))] if is_gzipped and rng.random() < 0.1 else data)
    reads = [["audit"], ["audit", "-all"], ["log"], ["q"], ["history", "-long"], ["usage"], ["why", "1.0"], ["status"]]
    calls = [["import", "pool"], *reads, ["verify"]]
    trial.tries = len(calls)
    results = run_calls(trial.folder, calls)
    assert results[0].code in (0, 1)
    if (trial.path / "pool.db").exists():
        assert results[-1].code == 0, results[-1]
