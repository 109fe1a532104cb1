"""Faults that can be planted in the package: operators, calls, tables, the order of two steps.

A fault is named by its file, its function, what stood there and what stands there now, not by its line: so a list of
faults outlives other changes of the file.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
SUBJECTS: Mapping[str, tuple[str, ...]] = {
    "deciding": ("domain/decide", "domain/decision"),
    "fold": ("domain/fold", "domain/state"),
    "access point": ("domain/schedd",),
    "execution point": ("domain/startd",),
    "negotiation": ("domain/negotiator",),
    "tables": ("domain/state_machines",),
    "stores": ("adapters/stores",),
    "runtime": ("adapters/runtime",),
    "execution": ("adapters/machine/execution",),
    "permissions": (
        "adapters/runtime/config_sources.py", "adapters/runtime/requests.py", "adapters/runtime/connections.py",
        "adapters/sockets.py", "domain/schedd/job_commands.py", "domain/startd/vacating.py",
        "domain/decision/draft.py", "domain/negotiator/submitter_commands.py", "adapters/stores/sqlite_files.py",
        "adapters/machine/execution/supervisor/server.py",
    ),
    "timers": (
        "domain/decide/timers.py", "domain/startd/time_limits.py", "domain/startd/evaluation_schedule.py",
        "domain/negotiator/schedule.py", "adapters/runtime/round_schedule.py", "adapters/runtime/leave_in_queue.py",
    ),
    "order and fsync": ("adapters/runtime", "adapters/stores", "adapters/machine/execution"),
}  # fmt: skip
"""What a run is about, and its files: each subject has as many faults as any other."""
IN_ORDER = "order and fsync"
"""The subject that has faults of these alone: two steps in the other order, a sync or another step left out."""


class Fault(NamedTuple):
    """A fault. The places are bytes of the file's text."""

    path: str
    line: int
    function: str  #: where it is; empty: beside all functions, in a table
    what: str
    old: str
    new: str
    begin: int
    end: int

    @property
    def name(self) -> str:
        return f"{self.path} {self.function or 'table'}: {_short(self.old)} -> {_short(self.new) or 'nothing'}"

    def planted(self, text: bytes) -> bytes:
        return text[: self.begin] + self.new.encode() + text[self.end :]


def _short(code: str) -> str:
    said = " ".join(code.split())
    return said if len(said) <= 100 else said[:60] + " ... " + said[-35:]


_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}

Change = tuple[ast.AST, "ast.AST | str", str]
"""The part that is replaced, by what, and the words for it."""


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield each way to get `node` wrong."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        other = _COMPARED[type(node.ops[0])]()
        yield node, ast.Compare(node.left, [other], node.comparators), "another comparison"
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not _is_text(node):
        yield node, ast.BinOp(node.left, _COMPUTED[type(node.op)](), node.right), "another operator"
    elif isinstance(node, ast.BoolOp):
        other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, ast.BoolOp(other_op, node.values), "and for or"
        yield node, node.values[0], "half a condition"
        yield node, node.values[-1], "the other half of a condition"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, node.operand, "no not"
    elif isinstance(node, ast.If | ast.While):
        yield node.test, ast.Constant(value=False), "a condition that never holds"
        if isinstance(node, ast.If):
            yield node.test, ast.Constant(value=True), "a condition that always holds"
    elif isinstance(node, ast.IfExp):
        yield node, node.orelse, "one branch"
        yield node, node.body, "the other branch"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        yield node.func, ast.Name(_CALLED[node.func.id]), "another function"
    elif isinstance(node, ast.Constant):
        yield from _other_constants(node)
    else:
        yield from _missing(node)


def _other_constants(node: ast.Constant) -> Iterator[Change]:
    if type(node.value) is int:
        yield node, ast.Constant(value=node.value + 1), "one more"
    elif type(node.value) is bool:
        yield node, ast.Constant(value=not node.value), "the contrary"


def _missing(node: ast.AST) -> Iterator[Change]:
    """Yield what is left out of a list of statements."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.YieldFrom):
        yield node, ast.Pass(), "a call left out"
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.Assign) and not _binds(node)):
        yield node, ast.Pass(), "an assignment left out"
    elif isinstance(node, ast.Raise):
        yield node, ast.Pass(), "nothing raised"
    elif isinstance(node, ast.Continue | ast.Break) or (isinstance(node, ast.Return) and node.value is None):
        yield node, ast.Pass(), "no jump"
    elif isinstance(node, ast.Return) and not isinstance(node.value, ast.Constant):
        assert node.value is not None
        yield node.value, ast.Constant(value=None), "nothing returned"


def _binds(node: ast.Assign) -> bool:
    return isinstance(node.targets[0], ast.Name | ast.Tuple)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
               for part in (node.left, node.right))  # fmt: skip


def _swaps(node: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield two steps that follow each other, each of which does something."""
    for name in ("body", "orelse", "finalbody"):
        steps = getattr(node, name, None)
        if isinstance(steps, list):
            yield from ((one, two) for one, two in pairwise(steps) if _acts(one) and _acts(two))


def _acts(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _syncs(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "sync" in ast.unparse(node.value.func)


def _is_table(node: ast.Tuple | ast.List | ast.Set) -> bool:
    """Several entries, and not the values of one."""
    one = isinstance(node, ast.Tuple) and all(isinstance(entry, ast.Constant) for entry in node.elts)
    return len(node.elts) > 1 and not one


class _Reader:
    """The faults of one file of Python."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_bytes()
        self.starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: list[Fault] = []

    def read(self) -> list[Fault]:
        tree = ast.parse(self.text)
        for node, function in _functions(tree, ""):
            for statement in node.body:
                self._inside(statement, function)
            self._swap(node, function)
        self._tables(tree)
        return self.found

    def _inside(self, node: ast.AST, function: str) -> None:
        """What runs when the function is called, annotations and the words of errors left out."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assert):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        for old, new, what in _changes(node):
            self._add(old, new, what, function)
        self._swap(node, function)
        if not isinstance(node, ast.Raise | ast.JoinedStr):
            for child in ast.iter_child_nodes(node):
                if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
                    self._inside(child, function)

    def _swap(self, node: ast.AST, function: str) -> None:
        for one, two in _swaps(node):
            begin, between, then, end = (*self._place(one), *self._place(two))
            first, second = self.text[begin:between].decode(), self.text[then:end].decode()
            if second != first:
                gap = self.text[between:then].decode()
                self._put(one.lineno, "the other order", function, begin, end, second + gap + first)
            if _syncs(one):
                self._put(one.lineno, "no sync", function, begin, between, "pass")

    def _tables(self, tree: ast.Module) -> None:
        for statement in tree.body:
            value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
                continue
            for node in ast.walk(value) if value is not None else ():
                if isinstance(node, ast.Tuple | ast.List | ast.Set) and _is_table(node):
                    for one in node.elts:
                        kept = type(node)(elts=[each for each in node.elts if each is not one])
                        self._add(node, kept, "an entry left out", "", short=one)
                elif isinstance(node, ast.Dict) and len(node.keys) > 1:
                    for key, item in zip(node.keys, node.values, strict=True):
                        if key is not None:
                            self._put(key.lineno, "an entry left out", "", *self._entry(key, item), "")
                elif isinstance(node, ast.Constant):
                    for old, new, what in _other_constants(node):
                        self._add(old, new, what, "")

    def _entry(self, key: ast.expr, item: ast.expr) -> tuple[int, int]:
        begin, end = self._place(key)[0], self._place(item)[1]
        rest = self.text[end:]
        closing = len(rest) - len(rest.lstrip(b" \n)"))
        return begin, end + closing + 1 if rest[closing : closing + 1] == b"," else end

    def _place(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(self, old: ast.AST, new: ast.AST | str, what: str, function: str, short: ast.AST | None = None) -> None:
        begin, end = self._place(old)
        said = new if isinstance(new, str) else ast.unparse(ast.fix_missing_locations(new))
        said = f"({said})" if isinstance(new, ast.expr) and not said.startswith("(") else said
        fault = self._put(getattr(short or old, "lineno", 0), what, function, begin, end, said)
        if fault is not None and short is not None:
            self.found[-1] = fault._replace(line=getattr(short, "lineno", 0))

    def _put(self, line: int, what: str, function: str, begin: int, end: int, new: str) -> Fault | None:
        old = self.text[begin:end].decode()
        fault = Fault(self.path, line, function, what, old, new, begin, end)
        self.found.append(fault)
        return fault


def _functions(node: ast.AST, inside: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{inside}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef):
                yield child, name
            yield from _functions(child, name)
        else:
            yield from _functions(child, inside)


def _of_rows(path: str) -> list[Fault]:
    """A row left out of the machines' tables, or one of its sources or targets."""
    found, place, section = [], 0, ""
    for number, line in enumerate((ROOT / path).read_text().splitlines(keepends=True), start=1):
        size = len(line.encode())
        if line.startswith("["):
            section = line.strip()
        elif line.strip() and not line.startswith("#"):
            parts = line.split(" | ")
            found.append(Fault(path, number, section, "a row left out", line, "", place, place + size))
            for column in (1, 2):
                several = parts[column].split(", ")
                for one in several if len(several) > 1 else ():
                    less = ", ".join(each for each in several if each != one)
                    new = " | ".join([*parts[:column], less, *parts[column + 1 :]])
                    found.append(Fault(path, number, section, f"{one} left out", line, new, place, place + size))
        place += size
    return found


def faults_of(path: str) -> list[Fault]:
    """Return every fault that can be planted in a file."""
    if path.endswith(".txt"):
        return _of_rows(path)
    return _Reader(path).read()


def can_be_planted(fault: Fault) -> bool:
    """Whether the file is still one of Python with it."""
    text = fault.planted((ROOT / fault.path).read_bytes())
    if text == (ROOT / fault.path).read_bytes():
        return False
    try:
        if not fault.path.endswith(".txt"):
            compile(text, fault.path, "exec")
    except (SyntaxError, ValueError):  # in a string with braces
        return False
    return True


def files_of(place: str) -> list[str]:
    """Return the files of a folder in which faults are planted, or the file itself."""
    if not (ROOT / place).is_dir():
        return [place]
    found = [*(ROOT / place).rglob("*.py"), *(ROOT / place).glob("rows.txt")]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def drawn(subjects: Iterable[str], count: int, seed: int) -> list[tuple[str, Fault]]:
    """Return `count` faults with their subjects, as many of each subject as of any other as far as there are any, and
    one a line at most."""
    heaps = {subject: _heap(subject, seed) for subject in subjects}
    found: list[tuple[str, Fault]] = []
    taken: Counter[tuple[str, int]] = Counter()
    while any(heaps.values()) and len(found) < count:
        for subject, heap in heaps.items():
            while heap and len(found) < count:
                fault = heap.pop()
                if not taken[fault.path, fault.line] and can_be_planted(fault):
                    taken[fault.path, fault.line] += 1
                    found.append((subject, fault))
                    break
    return found


def _heap(subject: str, seed: int) -> list[Fault]:
    found = [fault for place in SUBJECTS[subject] for path in files_of(place) for fault in faults_of(path)]
    ordering = ("the other order", "no sync")
    kept = [fault for fault in found if (fault.what in ordering) == (subject == IN_ORDER)]
    random.Random(f"{seed} {subject}").shuffle(kept)
    return kept
