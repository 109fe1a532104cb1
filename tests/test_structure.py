"""Measurements of the tree: what counts as an import, a cycle, and a name with two meanings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .structure import (
    HERE,
    NOT_PRODUCT,
    Module,
    between_rooms,
    circles,
    classes_twice,
    module_graph,
    modules_of,
    names_twice,
    package_graph,
    percentile,
    report,
    sizes,
)

Tree = Callable[[dict[str, str]], list[Module]]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a function that makes a tree of files; each directory gets an `__init__.py`."""

    def build(files: dict[str, str]) -> list[Module]:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            for folder in [path.parent, *path.parent.parents]:
                if tmp_path in folder.parents and not (folder / "__init__.py").exists():
                    (folder / "__init__.py").write_text("")
            path.write_text(text)
        return modules_of(tmp_path)

    return build


@pytest.mark.parametrize(
    ("statement", "run_time", "all_of_them"),
    [
        ("from ..b.c import D", {"poolbook.b.c"}, {"poolbook.b.c"}),
        ("from ..b import c", {"poolbook.b.c"}, {"poolbook.b.c"}),
        ("from ..b import D", {"poolbook.b"}, {"poolbook.b"}),
        ("from . import y", {"poolbook.a.y"}, {"poolbook.a.y"}),
        ("import poolbook.b.c", {"poolbook.b.c"}, {"poolbook.b.c"}),
        ("from json import loads", set(), set()),
        ("try:\n    from ..b import c\nfinally:\n    pass", {"poolbook.b.c"}, {"poolbook.b.c"}),
        ("class C:\n    from ..b import c", {"poolbook.b.c"}, {"poolbook.b.c"}),
        ("def f():\n    from ..b import c", set(), {"poolbook.b.c"}),
        ("if TYPE_CHECKING:\n    from ..b import c", set(), {"poolbook.b.c"}),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from ..b import c", {"poolbook.b.c"}, {"poolbook.b.c"}),
    ],
)
def test_every_import_is_found(tree: Tree, statement: str, run_time: set[str], all_of_them: set[str]) -> None:
    modules = tree({"a/x.py": statement, "a/y.py": "", "b/c.py": "D = 1"})
    assert module_graph(modules)["poolbook.a.x"] == run_time
    assert module_graph(modules, run_time=False)["poolbook.a.x"] == all_of_them


def test_cycles_of_modules_and_of_packages_are_found(tree: Tree) -> None:
    modules = tree(
        {
            "a/x.py": "from ..b import y",
            "b/y.py": "def f():\n    from ..a import x",
            "b/z.py": "from ..a import w",
            "a/w.py": "",
            "c/v.py": "from ..b import z",
            "tests/t.py": "from poolbook.c import v",
        }
    )
    graph = module_graph(modules)
    assert circles(graph) == []
    assert circles(module_graph(modules, run_time=False)) == [["poolbook.a.x", "poolbook.b.y"]]
    assert circles(package_graph(modules, graph)) == [["poolbook.a", "poolbook.b"]]
    assert circles(package_graph(modules, graph, loose=True)) == []
    assert between_rooms(modules, graph) == {"a -> b": 1, "b -> a": 1, "c -> b": 1}


def test_a_name_with_two_meanings_is_found(tree: Tree) -> None:
    modules = tree({"a/x.py": "class C: pass\nclass D: pass", "b/x.py": "class C: pass", "tests/x.py": "class D: pass"})
    assert names_twice(modules) == {"x": ["poolbook.a.x", "poolbook.b.x"]}
    assert classes_twice(modules) == {"C": ["poolbook.a.x", "poolbook.b.x"]}


def test_sizes_are_counted(tree: Tree) -> None:
    modules = tree({"a/x.py": "def f():\n    def g():\n        pass\n    return g\n" + "\n" * 500})
    sizes_found = sizes(modules)
    assert (sizes_found["files"], sizes_found["lines"], sizes_found["files > 450"], sizes_found["file: max"]) == (
        2,
        504,
        1,
        504,
    )
    assert (sizes_found["functions"], sizes_found["function: max"], sizes_found["functions > 60"]) == (2, 4, 0)
    assert [percentile(list(range(1, 101)), share) for share in (0.5, 0.95, 1.0)] == [50, 95, 100]
    assert "| files | 2 / 2 | 2 / 2 | 2 / 2 |" in report([modules, modules])


# This tree


@pytest.fixture(scope="module")
def own_modules() -> list[Module]:
    return modules_of(HERE, NOT_PRODUCT)


def test_no_modules_import_each_other_in_a_cycle(own_modules: list[Module]) -> None:
    """Imports within functions and for types count: they would be a cycle, too."""
    assert circles(module_graph(own_modules, run_time=False)) == []


def test_no_packages_import_each_other_in_a_cycle(own_modules: list[Module]) -> None:
    """A package is the modules directly in its directory; its sub-packages are separate."""
    assert circles(package_graph(own_modules, module_graph(own_modules))) == []
