"""Faults that can be planted in the package: operators, calls, tables, the order of two steps.

A fault's name has its file, its function, and the old and the new code. It has no line number, so other changes of the
file do not affect it.
"""

from __future__ import annotations

import ast
import random
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
"""The subjects and their files; each subject gets the same number of faults."""
ORDER_SUBJECT = "order and fsync"
"""The only subject with these faults: two statements swapped, or a sync omitted."""


class Fault(NamedTuple):
    """A fault. ``begin`` and ``end`` are byte offsets in the file."""

    path: str
    line: int
    function: str  #: empty: outside of functions, in a table
    description: str
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
    line = " ".join(code.split())
    return line if len(line) <= 100 else line[:60] + " ... " + line[-35:]


_OTHER_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OTHER_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
_OTHER_FUNCTIONS = {"min": "max", "max": "min", "any": "all", "all": "any", "sorted": "list"}

Change = tuple[ast.AST, "ast.AST | str", str]
"""The replaced node, its replacement, and a description."""


def _changes(node: ast.AST) -> Iterator[Change]:
    """Yield the faults that can be planted in `node`."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OTHER_COMPARISONS:
        other = _OTHER_COMPARISONS[type(node.ops[0])]()
        yield node, ast.Compare(node.left, [other], node.comparators), "another comparison"
    elif isinstance(node, ast.BinOp) and type(node.op) in _OTHER_OPERATORS and not _is_text(node):
        yield node, ast.BinOp(node.left, _OTHER_OPERATORS[type(node.op)](), node.right), "another operator"
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
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _OTHER_FUNCTIONS:
        yield node.func, ast.Name(_OTHER_FUNCTIONS[node.func.id]), "another function"
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
    """Yield the omissions of a statement or its result."""
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


def _successive_calls(node: ast.AST) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    """Yield each pair of successive calls."""
    for name in ("body", "orelse", "finalbody"):
        steps = getattr(node, name, None)
        if isinstance(steps, list):
            yield from ((first, second) for first, second in pairwise(steps) if _is_call(first) and _is_call(second))


def _is_call(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


def _is_sync(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and "sync" in ast.unparse(node.value.func)


def _is_table(node: ast.Tuple | ast.List | ast.Set) -> bool:
    """Return True if the node has several entries, and is not itself an entry of constants."""
    is_entry = isinstance(node, ast.Tuple) and all(isinstance(entry, ast.Constant) for entry in node.elts)
    return len(node.elts) > 1 and not is_entry


class _FaultFinder:
    """Finds the faults of one Python file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.text = (ROOT / path).read_bytes()
        self.starts = [0]
        for line in self.text.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.faults: list[Fault] = []

    def read(self) -> list[Fault]:
        tree = ast.parse(self.text)
        for node, function in _functions(tree, ""):
            for statement in node.body:
                self._add_code_faults(statement, function)
            self._add_swaps(node, function)
        self._add_table_faults(tree)
        return self.faults

    def _add_code_faults(self, node: ast.AST, function: str) -> None:
        """Add the faults of code that runs in the function, except annotations and error messages."""
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assert):
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        for old, new, description in _changes(node):
            self._add(old, new, description, function)
        self._add_swaps(node, function)
        if not isinstance(node, ast.Raise | ast.JoinedStr):
            for child in ast.iter_child_nodes(node):
                if not (isinstance(node, ast.AnnAssign) and child is node.annotation):
                    self._add_code_faults(child, function)

    def _add_swaps(self, node: ast.AST, function: str) -> None:
        for first, second in _successive_calls(node):
            begin, first_end, second_begin, end = (*self._span(first), *self._span(second))
            first_text, second_text = self.text[begin:first_end].decode(), self.text[second_begin:end].decode()
            if second_text != first_text:
                gap = self.text[first_end:second_begin].decode()
                self._append(first.lineno, "the other order", function, begin, end, second_text + gap + first_text)
            if _is_sync(first):
                self._append(first.lineno, "no sync", function, begin, first_end, "pass")

    def _add_table_faults(self, tree: ast.Module) -> None:
        for statement in tree.body:
            value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
                continue
            for node in ast.walk(value) if value is not None else ():
                if isinstance(node, ast.Tuple | ast.List | ast.Set) and _is_table(node):
                    for omitted in node.elts:
                        shorter = type(node)(elts=[entry for entry in node.elts if entry is not omitted])
                        self._add(node, shorter, "an entry left out", "", entry=omitted)
                elif isinstance(node, ast.Dict) and len(node.keys) > 1:
                    for key, item in zip(node.keys, node.values, strict=True):
                        if key is not None:
                            self._append(key.lineno, "an entry left out", "", *self._entry_span(key, item), "")
                elif isinstance(node, ast.Constant):
                    for old, new, description in _other_constants(node):
                        self._add(old, new, description, "")

    def _entry_span(self, key: ast.expr, item: ast.expr) -> tuple[int, int]:
        begin, end = self._span(key)[0], self._span(item)[1]
        rest = self.text[end:]
        closing = len(rest) - len(rest.lstrip(b" \n)"))
        return begin, end + closing + 1 if rest[closing : closing + 1] == b"," else end

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None and node.end_col_offset is not None
        return self.starts[node.lineno - 1] + node.col_offset, self.starts[node.end_lineno - 1] + node.end_col_offset

    def _add(
        self, old: ast.AST, new: ast.AST | str, description: str, function: str, entry: ast.AST | None = None
    ) -> None:
        begin, end = self._span(old)
        code = new if isinstance(new, str) else ast.unparse(ast.fix_missing_locations(new))
        code = f"({code})" if isinstance(new, ast.expr) and not code.startswith("(") else code
        fault = self._append(getattr(entry or old, "lineno", 0), description, function, begin, end, code)
        if fault is not None and entry is not None:
            self.faults[-1] = fault._replace(line=getattr(entry, "lineno", 0))

    def _append(self, line: int, description: str, function: str, begin: int, end: int, new: str) -> Fault | None:
        old = self.text[begin:end].decode()
        fault = Fault(self.path, line, function, description, old, new, begin, end)
        self.faults.append(fault)
        return fault


def _functions(node: ast.AST, qualname: str) -> Iterator[tuple[ast.FunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            name = f"{qualname}.{child.name}".lstrip(".")
            if isinstance(child, ast.FunctionDef):
                yield child, name
            yield from _functions(child, name)
        else:
            yield from _functions(child, qualname)


def _table_faults(path: str) -> list[Fault]:
    """Return the faults of a state machine's table: a missing row, or a missing source or target."""
    faults, offset, section = [], 0, ""
    for number, line in enumerate((ROOT / path).read_text().splitlines(keepends=True), start=1):
        size = len(line.encode())
        if line.startswith("["):
            section = line.strip()
        elif line.strip() and not line.startswith("#"):
            parts = line.split(" | ")
            faults.append(Fault(path, number, section, "a row left out", line, "", offset, offset + size))
            for column in (1, 2):
                states = parts[column].split(", ")
                for omitted in states if len(states) > 1 else ():
                    others = ", ".join(state for state in states if state != omitted)
                    new = " | ".join([*parts[:column], others, *parts[column + 1 :]])
                    description = f"{omitted} left out"
                    faults.append(Fault(path, number, section, description, line, new, offset, offset + size))
        offset += size
    return faults


def faults_of(path: str) -> list[Fault]:
    """Return every fault that can be planted in a file."""
    if path.endswith(".txt"):
        return _table_faults(path)
    return _FaultFinder(path).read()


def can_be_planted(fault: Fault) -> bool:
    """Return True if the fault changes the file and leaves it valid Python."""
    text = fault.planted((ROOT / fault.path).read_bytes())
    if text == (ROOT / fault.path).read_bytes():
        return False
    try:
        if not fault.path.endswith(".txt"):
            compile(text, fault.path, "exec")
    except (SyntaxError, ValueError):  # in a string with braces
        return False
    return True


def files_of(path: str) -> list[str]:
    """Return the files of a folder that can have faults, or the file itself."""
    if not (ROOT / path).is_dir():
        return [path]
    paths = [*(ROOT / path).rglob("*.py"), *(ROOT / path).glob("rows.txt")]
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def draw_faults(subjects: Iterable[str], count: int, seed: int) -> list[tuple[str, Fault]]:
    """Return `count` faults with their subjects, evenly from all subjects, and at most one for each line of code."""
    heaps = {subject: _shuffled_faults(subject, seed) for subject in subjects}
    faults: list[tuple[str, Fault]] = []
    used_lines: set[tuple[str, int]] = set()
    while any(heaps.values()) and len(faults) < count:
        for subject, heap in heaps.items():
            while heap and len(faults) < count:
                fault = heap.pop()
                if (fault.path, fault.line) not in used_lines and can_be_planted(fault):
                    used_lines.add((fault.path, fault.line))
                    faults.append((subject, fault))
                    break
    return faults


def _shuffled_faults(subject: str, seed: int) -> list[Fault]:
    all_faults = [fault for place in SUBJECTS[subject] for path in files_of(place) for fault in faults_of(path)]
    ordering = ("the other order", "no sync")
    faults = [fault for fault in all_faults if (fault.description in ordering) == (subject == ORDER_SUBJECT)]
    random.Random(f"{seed} {subject}").shuffle(faults)
    return faults
