"""The product and its documentation use the words of the HTCondor manual, the event sourcing literature and Python's
library, and no phrase of plain_english.txt. `make check` runs these tests."""

import ast
import re
import symtable
from collections.abc import Iterator
from pathlib import Path

import pcre2
import pytest

ROOT = Path(__file__).resolve().parent.parent
TABLE = (ROOT / "tests" / "plain_english.txt").read_text().splitlines()
PHRASES = dict(line.split("\t") for line in TABLE if line and not line.startswith(("#", "allow")))
"""A regular expression -> the words to use instead."""
ALLOWED = {tuple(line.split("\t")[1:3]) for line in TABLE if line.startswith("allow")}
"""A file and a text in it that may contain a phrase."""
PHRASE = re.compile("|".join(f"({phrase})" for phrase in PHRASES))
PHRASE_IN_TEXT = pcre2.compile(PHRASE.pattern, jit=True)  # seven times as fast, without the group of a match
RIDDLES = {"found", "one", "said", "told"}
"""Names of local variables that do not say what the value is."""
NOT_FUNCTIONS = {"dictcomp", "genexpr", "lambda", "listcomp", "setcomp"}
"""Scopes that are no functions with a name."""
FIX = re.compile(
    r"`|\b(change|give|import|install|must|name|omit|only|put|remove|run|see|set|specify|start|takes|try|use)\b"
)
"""The part of an error message that says how to fix the problem: an instruction, or a command."""
PASSED_ON = re.compile(r"\b(advice|error|hint|kinds|problem|problems|reason|text|usage|_?[A-Z]+_[A-Z_]+)\b")
"""The values in a message that contain another message, or a constant text."""
PACKAGES = ("adapters", "domain", "projections", "replay")


def texts() -> Iterator[tuple[str, str]]:
    """Yield the name and the content of each text file of the product and its documentation."""
    patterns = [f"{top}/**/*.{kind}" for top in ("docs", *PACKAGES) for kind in ("md", "py", "txt")]
    for path in sorted({path for pattern in ("*.md", "*.py", *patterns) for path in ROOT.glob(pattern)}):
        yield path.relative_to(ROOT).as_posix(), path.read_text()


def phrases_in(name: str, text: str) -> Iterator[str]:
    """Yield a message for each phrase of the table in a text, unless it is allowed there."""
    for number, line in enumerate(text.splitlines() if PHRASE_IN_TEXT.search(text) else [], 1):
        for match in PHRASE.finditer(line):
            if not any(file == name and allowed in line for file, allowed in ALLOWED):
                replacement = list(PHRASES.values())[(match.lastindex or 1) - 1]
                yield f"{name}:{number}: {match[0]!r}; instead: {replacement}"


def riddles_in(name: str, source: str) -> Iterator[str]:
    """Yield a message for each local variable of a program that has one of the names in `RIDDLES`."""
    if any(riddle in source for riddle in RIDDLES):
        yield from _riddles_below(name, symtable.symtable(source, name, "exec"), False)


def _riddles_below(name: str, table: symtable.SymbolTable, in_function: bool) -> Iterator[str]:
    in_function = in_function or (table.get_type() == "function" and table.get_name() not in NOT_FUNCTIONS)
    for riddle in RIDDLES.intersection(table.get_identifiers() if in_function else ()):
        if table.lookup(riddle).is_assigned():
            yield f"{name}: a variable called {riddle!r} in the function at line {table.get_lineno()}; name its value"
    for child in table.get_children():
        yield from _riddles_below(name, child, in_function)


def errors_without_fix(name: str, source: str) -> Iterator[str]:
    """Yield each of Poolbook's own error messages in a command that has no fix. HTCondor's messages do not begin with
    "poolbook"."""
    for node in ast.walk(ast.parse(source)):
        call = node.exc if isinstance(node, ast.Raise) else None
        if (
            isinstance(call, ast.Call)
            and ast.unparse(call.func) in ("UsageError", "ToolError", "NotHere")
            and call.args
        ):
            parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
            text = "".join(str(part.value) for part in parts if isinstance(part, ast.Constant))
            values = " ".join(ast.unparse(part) for part in parts if not isinstance(part, ast.Constant))
            if text.startswith("poolbook") and not FIX.search(text) and not PASSED_ON.search(values):
                yield f"{name}:{call.lineno}: {text!r} has no fix"


def test_error_messages_of_commands_name_the_fix() -> None:
    commands = [(path.name, path.read_text()) for path in sorted((ROOT / "adapters/cli").rglob("*.py"))]
    assert [message for name, source in commands for message in errors_without_fix(name, source)] == []


@pytest.mark.parametrize(
    ("message", "errors"),
    [
        ('"poolbook q: no jobs"', 1),
        ('f"poolbook q: no job {id}"', 1),
        ('f"poolbook q: {error}"', 0),
        ('"poolbook q: no job is named: name one"', 0),
        ('"No jobs specified"', 0),
    ],
)
def test_messages_without_fix_are_detected(message: str, errors: int) -> None:
    assert len(list(errors_without_fix("command.py", f"raise UsageError({message})"))) == errors


def test_the_product_and_its_documentation_are_in_plain_english() -> None:
    assert [message for name, text in texts() for message in phrases_in(name, text)] == []


def test_local_variables_are_named_after_their_values() -> None:
    programs = [(name, text) for name, text in texts() if name.endswith(".py") and not name.startswith("docs/")]
    assert [message for name, source in programs for message in riddles_in(name, source)] == []


def test_each_allowed_text_is_in_its_file_and_contains_a_phrase() -> None:
    assert [(name, text) for name, text in ALLOWED if text not in (ROOT / name).read_text()] == []
    assert [text for _, text in ALLOWED if not PHRASE.search(text)] == []


@pytest.mark.parametrize(
    ("text", "phrases"),
    [
        ("every change stands in the log", 1),
        ("whoever has a name of HTCondor's", 2),
        ("every change is recorded in the log", 0),
        ("there is no slot for it", 0),
        ("the slot user is `nobody`", 0),
    ],
)
def test_phrases_of_the_table_are_detected(text: str, phrases: int) -> None:
    assert len(list(phrases_in("text.md", text))) == phrases


@pytest.mark.parametrize(("source", "riddles"), [("def f():\n    found = 1", 1), ("def f():\n    slots = 1", 0)])
def test_riddles_among_local_variables_are_detected(source: str, riddles: int) -> None:
    assert len(list(riddles_in("program.py", source))) == riddles
