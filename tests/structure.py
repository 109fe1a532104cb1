"""Print measurements of the tree's structure: `python tests/structure.py [ROOT] [ROOT-AFTER] [-list]`.

Reads the sources only with `ast`, so it works on any checkout, of older versions too. With two trees it prints each
measurement of both, as before / after. `-list` names what is counted: cycles, arrows, names that occur twice.

Definitions:

* A room is a directory in the root that has modules; `top` is the root itself. Directories whose names begin with a dot
  are left out, and so are build results.
* A function's length is its lines from `def` to its end; nested functions count separately.
* Imports are those among modules of the product (all rooms but tests and docs), relative ones resolved. `from . import
  x` is an import of the module x if there is one, else of the package itself. At run time: what an import of the module
  executes, so neither imports in functions nor under `if TYPE_CHECKING`. Imports that a package's `__getattr__` makes
  by a name in a text are not found.
* A cycle is a largest set of modules, or packages, that reach each other by imports. A package is the modules directly
  in its directory, `__init__.py` included. By the looser count, each module directly in a room is a separate package.
* Nested and private classes count like others.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).resolve().parent.parent
NAME = "poolbook"
NOT_OURS = {"build", "dist", "node_modules", "__pycache__"}
NOT_PRODUCT = {"tests", "docs"}
LONG_FUNCTION, LONG_FILE = 60, 450

Graph = dict[str, set[str]]


class Module(NamedTuple):
    """A file: its dotted name, its room, its tree, and its number of lines."""

    name: str
    room: str
    package: str
    path: Path
    tree: ast.Module
    lines: int


def modules_of(root: Path, without: Collection[str] = ()) -> list[Module]:
    """Return the modules of a checkout, by their paths; skip the rooms in `without`."""
    modules = []
    rooms = [path for path in root.iterdir() if path.name[0] != "." and path.name not in (*NOT_OURS, *without)]
    files = [file for room in rooms for file in ([room] if room.match("*.py") else room.rglob("*.py"))]
    for path in sorted(files):
        parts = path.relative_to(root).with_suffix("").parts
        if any(part.startswith(".") or part in NOT_OURS for part in parts):
            continue
        text = path.read_text(encoding="utf-8")
        package = ".".join([NAME, *parts[:-1]])
        name = package if parts[-1] == "__init__" else f"{package}.{parts[-1]}"
        room = parts[0] if len(parts) > 1 else "top"
        modules.append(Module(name, room, package, path, ast.parse(text), len(text.splitlines())))
    return modules


def product(modules: Iterable[Module]) -> list[Module]:
    return [module for module in modules if module.room not in NOT_PRODUCT]


# Imports


def statements(body: Iterable[ast.AST], run_time: bool) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the import statements below these nodes; with `run_time` only those executed by loading it."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif run_time and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        elif run_time and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from statements(node.orelse, run_time)
        else:
            yield from statements(_below(node), run_time)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements directly below a node, and nodes with statements, which no expression has."""
    for name in ("body", "orelse", "finalbody", "handlers", "cases"):
        below = getattr(node, name, ())
        yield from below if isinstance(below, list) else ()


def imported(module: Module, known_modules: set[str], run_time: bool) -> set[str]:
    """Return the modules of the product that a module imports."""
    targets: set[str] = set()
    for node in statements(module.tree.body, run_time):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            above = module.package.split(".")[: len(module.package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*above, *(node.module.split(".") if node.module else [])])
            names = [f"{base}.{alias.name}" for alias in node.names]
        for name in names:
            target = name if name in known_modules else name.rpartition(".")[0]
            if target in known_modules and target != module.name:
                targets.add(target)
    return targets


def module_graph(modules: Iterable[Module], run_time: bool = True) -> Graph:
    """Return which module imports which."""
    modules = product(modules)
    names = {module.name for module in modules}
    return {module.name: imported(module, names, run_time) for module in modules}


def package_graph(modules: Iterable[Module], graph: Graph, loose: bool = False) -> Graph:
    """Return which package imports from which, by a graph of modules; `loose`: each module directly in a room is a
    separate package."""
    place = {
        module.name: module.name if loose and module.package.count(".") < 2 else module.package
        for module in product(modules)
    }
    importers: Graph = {package: set() for package in place.values()}
    for module, targets in graph.items():
        importers[place[module]] |= {place[target] for target in targets} - {place[module]}
    return importers


def circles(graph: Graph) -> list[list[str]]:
    """Return the sets of more than one node whose nodes all reach each other, the largest first (Tarjan's
    algorithm)."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    circles_found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for target in sorted(graph[node]):
            if target not in number:
                visit(target)
                lowest[node] = min(lowest[node], lowest[target])
            elif target in stack:
                lowest[node] = min(lowest[node], number[target])
        if lowest[node] == number[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                circles_found.append(sorted(stack[at:]))
            del stack[at:]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 4 * len(graph) + 1000))
    try:
        for node in sorted(graph):
            if node not in number:
                visit(node)
    finally:
        sys.setrecursionlimit(limit)
    return sorted(circles_found, key=lambda circle: (-len(circle), circle))


def between_rooms(modules: Iterable[Module], graph: Graph) -> Counter[str]:
    """Return how many imports go from one room to another."""
    rooms = {module.name: module.room for module in modules}
    pairs = ((rooms[module], rooms[target]) for module, targets in graph.items() for target in targets)
    return Counter(f"{package} -> {other}" for package, other in pairs if package != other)


# Names


def names_twice(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the files' names that occur more than once, with the modules."""
    by_name = defaultdict(list)
    for module in product(modules):
        if module.path.name != "__init__.py":
            by_name[module.path.stem].append(module.name)
    return {name: places for name, places in sorted(by_name.items()) if len(places) > 1}


def classes_twice(modules: Iterable[Module]) -> dict[str, list[str]]:
    """Return the names of classes that are defined in more than one module, with the modules."""
    by_name: dict[str, set[str]] = defaultdict(set)
    for module in product(modules):
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                by_name[node.name].add(module.name)
    return {name: sorted(places) for name, places in sorted(by_name.items()) if len(places) > 1}


# The tables


def percentile(numbers: list[int], share: float) -> int:
    ordered = sorted(numbers)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)] if ordered else 0


def sizes(modules: list[Module]) -> dict[str, int]:
    """Return the measurements of a room."""
    files = [module.lines for module in modules]
    functions = [
        (node.end_lineno or node.lineno) - node.lineno + 1
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "files": len(files),
        "lines": sum(files),
        "file: median": round(median(files)) if files else 0,
        "file: max": max(files, default=0),
        f"files > {LONG_FILE}": sum(length > LONG_FILE for length in files),
        "functions": len(functions),
        "function: median": round(median(functions)) if functions else 0,
        "function: p95": percentile(functions, 0.95),
        "function: max": max(functions, default=0),
        f"functions > {LONG_FUNCTION}": sum(length > LONG_FUNCTION for length in functions),
    }


def shape(modules: list[Module]) -> dict[str, str]:
    """Return the measurements of the imports and names."""
    measurements: dict[str, str] = {}
    for when, run_time in (("at run time", True), ("with functions' and types' imports", False)):
        graph = module_graph(modules, run_time)
        packages = package_graph(modules, graph)
        measurements[f"imports among modules, {when}"] = str(sum(map(len, graph.values())))
        measurements[f"circles of modules, {when}"] = counted(circles(graph), "modules")
        measurements[f"circles of packages, {when}"] = counted(circles(packages), "packages")
        loose = circles(package_graph(modules, graph, loose=True))
        measurements[f"the same, modules right in a room each for itself, {when}"] = counted(loose, "nodes")
        measurements[f"arrows between packages, {when}"] = str(sum(map(len, packages.values())))
        mutual = sum(package in packages[other] for package in packages for other in packages[package]) // 2
        measurements[f"pairs of packages that import each other, {when}"] = str(mutual)
        rooms = between_rooms(modules, graph)
        measurements[f"imports between rooms, {when}"] = str(rooms.total())
        measurements[f"arrows between rooms, {when}"] = ", ".join(
            f"{arrow} {count}" for arrow, count in sorted(rooms.items())
        )
    files, classes = names_twice(modules), classes_twice(modules)
    measurements["files' names that occur more than once"] = f"{len(files)} (of {sum(map(len, files.values()))} files)"
    public = sum(not name.startswith("_") for name in classes)
    measurements["classes' names with more than one meaning"] = f"{len(classes)} ({public} of them public)"
    return measurements


def counted(entries: list[list[str]], noun: str) -> str:
    if not entries:
        return "0"
    return f"{len(entries)} ({sum(map(len, entries))} {noun}, the largest {len(entries[0])})"


def table(heads: list[str], rows: Iterable[list[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def report(trees: list[list[Module]]) -> str:
    """Return the tables of one tree, or of two: before / after."""
    by_room: list[dict[str, dict[str, int]]] = []
    for modules in trees:
        rooms = sorted({module.room for module in modules}, key=lambda room: (room in NOT_PRODUCT, room))
        parts = {room: [module for module in modules if module.room == room] for room in rooms}
        by_room.append(
            {name: sizes(part) for name, part in (parts | {"product": product(modules), "all": modules}).items()}
        )
    columns = list(dict.fromkeys(name for figures in by_room for name in figures))
    columns = [*(name for name in columns if name not in ("product", "all")), "product", "all"]
    first = next(iter(by_room[0].values()))

    def cell(column: str, figure: str) -> str:
        cells = [f"{figures[column][figure]:,}" if column in figures else "-" for figures in by_room]
        return " / ".join(cells)

    shapes = [shape(modules) for modules in trees]
    labels = ["now"] if len(trees) == 1 else ["before", "after"]
    return "\n\n".join(
        [
            table(["", *columns], ([figure, *(cell(column, figure) for column in columns)] for figure in first)),
            table(["", *labels], ([figure, *(shape[figure] for shape in shapes)] for figure in shapes[0])),
        ]
    )


def listed(modules: list[Module]) -> str:
    """Return what is counted, by name."""
    lines = []
    for when, run_time in (("at run time", True), ("with functions' and types' imports", False)):
        graph = module_graph(modules, run_time)
        for kind, nodes in (("modules", graph), ("packages", package_graph(modules, graph))):
            lines.append(f"\nCircles of {kind}, {when}:")
            lines += [f"  {len(circle)}: {', '.join(circle)}" for circle in circles(nodes)]
    lines.append("\nArrows between packages, at run time:")
    packages = package_graph(modules, module_graph(modules))
    lines += [f"  {package} -> {', '.join(sorted(packages[package]))}" for package in sorted(packages)]
    for kind, names in (("Files", names_twice(modules)), ("Classes", classes_twice(modules))):
        lines.append(f"\n{kind} of one name:")
        lines += [f"  {name}: {', '.join(places)}" for name, places in names.items()]
    return "\n".join(lines)


def main(*arguments: str) -> None:
    roots = [Path(word) for word in arguments if not word.startswith("-")] or [HERE]
    if len(roots) > 2:
        raise SystemExit("usage: python tests/structure.py [ROOT] [ROOT-AFTER] [-list]")
    trees = [modules_of(root.resolve()) for root in roots]
    print(report(trees))
    if "-list" in arguments:
        print(listed(trees[-1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
