"""The layout: who may import whom, what the domain may not touch, and one name for every directory."""

import ast
import importlib.util
import os
import re
import tomllib
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from .structure import statements
from .together import together

ROOT = Path(__file__).resolve().parent.parent

# A top-level package may import itself and those before it.
ROOMS = ["domain", "projections", "replay", "adapters"]

# The clock, randomness and the world, by module. Time zones (zoneinfo) are data, hence not here; so are the data files
# of a module's own directory, which `package_data.get_data` reads (see `foreign_data`).
IMPURE_MODULES = {
    "asyncio",
    "http",
    "importlib.resources",
    "multiprocessing",
    "os",
    "pkgutil",
    "random",
    "secrets",
    "select",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "urllib",
    "uuid",
}
OWN_DATA = re.compile(r"get_data\(__package__, '\w[\w.]*'\)")
IMPURE_BUILTINS = {"input", "open", "print"}
CLOCK_READINGS = {"now", "today", "utcnow"}

# Records of HTCondor pools are a separate context: reading, auditing and explaining them shares with the live pool only
# the log, its listing, the tables of rows, the languages, names and messages. By package: what it may import of the
# product besides the package itself, by prefixes of module names.
OF_RECORDS = (
    "domain.classad",
    "domain.errors",
    "domain.events",
    "domain.imported",
    "domain.names",
    "domain.package_data",
    "domain.ports.log",
    "domain.state_machines",
    "domain.suggestions",
    "domain.units",
    "replay.audit_result",
    "replay.forensics",
    "replay.listing",
    "replay.narration",
)
CONTEXTS = {
    "domain.imported": ("domain.classad", "domain.errors", "domain.events", "domain.package_data"),
    "replay.forensics": (*OF_RECORDS, "replay.runs"),
    "adapters.condor_files": OF_RECORDS,
    # The import writes a log, maintains its views, and refuses like every command.
    "adapters.condor_files.importing": (
        *OF_RECORDS,
        "adapters.condor_files",
        "adapters.library.python_values.pauses",
        "adapters.library.python_values.polls",
        "adapters.machine.host",
        "adapters.machine.local_time",
        "adapters.runtime.views",
        "adapters.stores",
        "domain.decision.draft.Refusal",
    ),
}

# The roles of a pool: they affect each other only through messages, which `domain.decide.delivery` delivers.
# Below them is what they share: neither the roles nor the code that composes them.
ROLES = ("schedd", "startd", "negotiator", "defrag")
SHARED = ("classad", "config", "decision", "events", "fold", "macros", "ports", "requests", "state", "state_machines")

# The reference implementation, which tests compare with; no part of the product.
REFERENCE = {"classad2", "htcondor", "htcondor2"}


parsed = cache(ast.parse)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(["poolbook", *(parts[:-1] if parts[-1] == "__init__" else parts)])


PATHS = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
PUBLIC_MODULES = ("__init__.py", "events.py", "results.py", "testing.py")
SOURCES = {path: module_name(path) for path in [*(ROOT / name for name in PUBLIC_MODULES), *PATHS]}
FOLDERS = sorted({path.parent for path in SOURCES} - {ROOT})


def label(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield each imported thing as (level, dotted name); also those within functions and conditions."""
    for node in statements(tree.body, run_time=False):
        if isinstance(node, ast.Import):
            yield from ((0, alias.name) for alias in node.names)
        else:
            for alias in node.names:
                yield node.level, ".".join(filter(None, [node.module, alias.name]))


def wrong_imports(source: str, package: str) -> list[str]:
    """Return the imports of `source`, a module directly inside `package`, that violate the rules."""
    violations = []
    package_parts = package.split(".")
    for level, name in imports(parsed(source)):
        first = name.split(".")[0]
        if level == 0:
            if first == "poolbook" or first in ROOMS:
                violations.append(f"{name}: write it as a relative import")
            elif first in REFERENCE:
                violations.append(f"{name}: the reference library is for tests")
        elif level > len(package_parts):
            violations.append(f"{'.' * level}{name}: leaves the package")
        elif len(package_parts) > 1:
            target = [*package_parts[: len(package_parts) - level + 1], *name.split(".")]
            room = target[1]
            if room not in ROOMS:
                violations.append(f"{'.' * level}{name}: the root is above all rooms")
            elif ROOMS.index(room) > ROOMS.index(package_parts[1]):
                violations.append(f"{'.' * level}{name}: {package_parts[1]} may not import {room}")
    return violations


def context_of(package: str) -> str:
    """Return the narrowest context of ``CONTEXTS`` that contains a package; empty if there is none."""
    inside = package.removeprefix("poolbook.")
    return max((context for context in CONTEXTS if f"{inside}.".startswith(f"{context}.")), key=len, default="")


def foreign_imports(source: str, package: str) -> list[str]:
    """Return the imports of `source`, a module directly inside `package`, that leave its context for the live
    pool's."""
    context = context_of(package)
    package_parts = package.split(".")
    names = (
        ".".join([*package_parts[1 : len(package_parts) - level + 1], name])
        for level, name in imports(parsed(source))
        if level
    )
    allowed = (context, *CONTEXTS[context])
    return [name for name in names if not any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed)]


def role_imports(source: str, package: str) -> list[str]:
    """Return the imports of `source`, a module directly inside the package of a role or of what roles share, that
    belong to another role, or to the code that composes the roles."""
    package_parts = package.split(".")
    names = (
        ".".join([*package_parts[: len(package_parts) - level + 1], name])
        for level, name in imports(parsed(source))
        if level
    )
    other_roles = tuple(f"poolbook.domain.{role}." for role in (*ROLES, "decide") if role != package_parts[2])
    return [name for name in names if f"{name}.".startswith(other_roles)]


def is_impure(name: str) -> bool:
    """Return True if an imported name belongs to a module that the domain may not use."""
    return any(f"{name}.".startswith(f"{module}.") for module in (*IMPURE_MODULES, "numpy.random"))


def foreign_data(nodes: Sequence[ast.AST]) -> list[str]:
    """Return where `get_data` reads, or may read, anything but a data file of the module's own directory."""
    renamed = [node for node in nodes if isinstance(node, ast.alias) and node.name == "get_data" and node.asname]
    uses = [node for node in nodes if isinstance(node, ast.Name) and node.id == "get_data"]
    if not (renamed or uses):
        return []
    own_calls = {
        id(node.func) for node in nodes if isinstance(node, ast.Call) and OWN_DATA.fullmatch(ast.unparse(node))
    }
    return [ast.unparse(node) for node in (*renamed, *uses) if id(node) not in own_calls]


def impurities(source: str) -> list[str]:
    """Return where `source` uses the clock, randomness or the world."""
    tree = parsed(source)
    names = [name for level, name in imports(tree) if level == 0 and is_impure(name)]
    nodes = [*ast.walk(tree)]
    names += foreign_data(nodes)
    clocks, numpys = set(), set()
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == "datetime":
                    clocks |= {f"{alias.asname or 'datetime'}.{n}" for n in ("date", "datetime")}
                elif alias.name == "numpy":
                    numpys.add(alias.asname or "numpy")
        elif isinstance(node, ast.ImportFrom) and node.module == "datetime" and not node.level:
            clocks |= {a.asname or a.name for a in node.names if a.name in ("date", "datetime")}
    for node in nodes:
        if isinstance(node, ast.Attribute) and node.attr in (*CLOCK_READINGS, "random"):
            owner = ast.unparse(node.value)
            if (node.attr in CLOCK_READINGS and owner in clocks) or (node.attr == "random" and owner in numpys):
                names.append(f"{owner}.{node.attr}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_BUILTINS:
            names.append(f"{node.func.id}()")
    return names


@together("path", SOURCES)
def test_imports_are_relative_and_go_one_way(path: Path) -> None:
    name = SOURCES[path]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    assert wrong_imports(path.read_text(encoding="utf-8"), package) == []


@together("path", [p for p in PATHS if ROOT / "domain" in p.parents])
def test_the_domain_is_pure(path: Path) -> None:
    assert impurities(path.read_text(encoding="utf-8")) == []


@together("path", [p for p in PATHS if p.relative_to(ROOT).parts[1] in (*ROLES, *SHARED)])
def test_no_role_imports_another(path: Path) -> None:
    name = SOURCES[path]
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    assert role_imports(path.read_text(encoding="utf-8"), package) == []


@together("folder", FOLDERS)
def test_every_folder_has_one_name(folder: Path) -> None:
    assert (folder / "__init__.py").exists(), "a folder of the package needs an __init__.py"
    room = ROOT.joinpath(*folder.relative_to(ROOT).parts[:1])  # it guards everything in it
    spec = importlib.util.spec_from_file_location("elsewhere", room / "__init__.py")
    assert spec is not None and spec.loader is not None
    module = module_name(room / "__init__.py").replace(".", r"\.")
    with pytest.raises(ImportError, match=f"as {module}, not as elsewhere"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    importlib.import_module(module_name(folder / "__init__.py"))


def test_every_top_level_package_is_linked_and_packaged() -> None:
    rooms = {path.parent.name for path in ROOT.glob("[!.]*/__init__.py")} - {"tests", "docs"}
    assert rooms == set(ROOMS)

    face = {*PUBLIC_MODULES, "py.typed", *ROOMS}
    links = [path for path in sorted((ROOT / ".path" / "poolbook").iterdir()) if path.name != "__pycache__"]
    assert {link.name for link in links} == face
    for link in links:
        assert os.readlink(link) == f"../../{link.name}"

    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]
    targets = hatch["build"]["targets"]
    assert set(targets["wheel"]["only-include"]) == {*ROOMS, "docs", "psij-descriptors"}
    assert targets["wheel"]["sources"] == {name: f"poolbook/{name}" for name in (*ROOMS, "docs")}
    assert {*face, "docs", "psij-descriptors"} <= set(targets["sdist"]["only-include"])


def test_code_about_records_imports_nothing_of_the_live_pool() -> None:
    packages = {path: name if path.name == "__init__.py" else name.rpartition(".")[0] for path, name in SOURCES.items()}
    errors = {
        f"{SOURCES[path]} imports {name}"
        for path, package in packages.items()
        if context_of(package)
        for name in foreign_imports(path.read_text(), package)
    }
    assert errors == set()


# Tests of the checks above, which must detect violations.


@together(
    ("package", "source", "foreign"),
    [
        ("poolbook.replay.forensics.audit", "from ....domain import events as e", False),
        ("poolbook.replay.forensics.audit", "from ..sources import Sources", False),
        ("poolbook.replay.forensics.audit", "from ...listing import LETTERS", False),
        ("poolbook.replay.forensics.audit", "from ...validation import judge", True),
        ("poolbook.replay.forensics.audit", "from ....domain.state.state import State", True),
        ("poolbook.replay.forensics", "def f():\n    from ...domain.startd import evaluation", True),
        ("poolbook.replay.forensics", "from ...domain import decide", True),
        ("poolbook.adapters.condor_files", "from ..stores.opening import open_log", True),
        ("poolbook.adapters.condor_files.importing", "from ...stores.opening import open_log", False),
        ("poolbook.adapters.condor_files.importing", "from ....domain.decision.draft import Draft", True),
        ("poolbook.domain.imported", "from ..state_machines import HTCONDOR_25", True),
    ],
)
def test_an_import_out_of_the_context_is_detected(package: str, source: str, foreign: bool) -> None:
    assert bool(foreign_imports(source, package)) == foreign


@together(
    ("package", "source", "wrong"),
    [
        ("poolbook.domain.schedd", "from ..ports.messages import ShowSlot", False),
        ("poolbook.domain.schedd", "from .claims import begin", False),
        ("poolbook.domain.schedd", "from ..startd.claiming import request_claim", True),
        ("poolbook.domain.schedd", "def f():\n    from ..startd import claiming", True),
        ("poolbook.domain.startd", "from .. import negotiator", True),
        ("poolbook.domain.negotiator.groups", "from ...startd.public_ad import PublishedSlots", True),
        ("poolbook.domain.defrag", "from ..decide.delivery import deliver", True),
        ("poolbook.domain.requests", "from ..schedd.deferral import sleeps", True),
        ("poolbook.domain.state", "from ..startd.settings import setting", True),
    ],
)
def test_an_import_of_another_role_is_detected(package: str, source: str, wrong: bool) -> None:
    assert bool(role_imports(source, package)) == wrong


@together(
    ("package", "source", "wrong"),
    [
        ("poolbook", "from .adapters.cli import main", False),
        ("poolbook.adapters", "from ..replay import audit", False),
        ("poolbook.replay", "from ..projections.queue import Queue", False),
        ("poolbook.replay", "from .. import projections", False),
        ("poolbook.domain.classad", "from . import parser", False),
        ("poolbook.domain.classad", "from ..slot import Slot", False),
        ("poolbook.domain", "import numpy", False),
        ("poolbook.domain", "from ..projections import queue", True),
        ("poolbook.domain", "from .. import replay", True),
        ("poolbook.domain.classad", "from ...adapters.cli import main", True),
        ("poolbook.domain.classad", "from ..... import x", True),
        ("poolbook.projections", "from ..replay.audit import audit", True),
        ("poolbook.projections", "def f():\n    from ..adapters import cli", True),
        ("poolbook.replay", "from ..adapters import cli", True),
        ("poolbook.adapters", "from .. import Pool", True),
        ("poolbook.adapters", "from poolbook.domain.slot import Slot", True),
        ("poolbook.adapters", "import domain.slot", True),
        ("poolbook.domain.classad", "import classad2", True),
    ],
)
def test_a_wrong_import_is_detected(package: str, source: str, wrong: bool) -> None:
    assert bool(wrong_imports(source, package)) == wrong


@together(
    ("source", "impure"),
    [
        ("from datetime import datetime, timezone", False),
        ("from zoneinfo import ZoneInfo", False),
        ("context.now", False),
        ("import numpy as np\nnp.zeros(3)", False),
        ("from .time import x", False),
        ("from ..package_data import get_data", False),
        ("from ..package_data import get_data\nget_data(__package__, 'defaults.conf')", False),
        ("from ..package_data import get_data\nget_data(__package__, '../defaults.conf')", True),
        ("from ..package_data import get_data\nget_data(__package__, '/etc/hosts')", True),
        ("from ..package_data import get_data\nget_data(__package__, name)", True),
        ("from ..package_data import get_data\nget_data('poolbook.adapters', 'defaults.conf')", True),
        ("from ..package_data import get_data\nread = get_data", True),
        ("from ..package_data import get_data as read\nread('os', 'x')", True),
        ("from pkgutil import iter_modules", True),
        ("import pkgutil\npkgutil.get_data(__package__, 'x')", True),
        ("from importlib.resources import files", True),
        ("from importlib import resources", True),
        ("import time", True),
        ("from os import path", True),
        ("import os.path", True),
        ("def f():\n    import random", True),
        ("import datetime as d\nd.datetime.now()", True),
        ("from datetime import date as day\nday.today()", True),
        ("import numpy as np\nnp.random.default_rng()", True),
        ("from numpy import random", True),
        ("open('x')", True),
    ],
)
def test_an_impurity_is_detected(source: str, impure: bool) -> None:
    assert bool(impurities(source)) == impure


def test_the_architecture_page_names_only_existing_paths_and_classes() -> None:
    """Newcomers start at docs/architecture.md: everything that it names in backticks exists."""
    names = set(re.findall(r"`([^`\s]+)`", (ROOT / "docs/architecture.md").read_text()))
    existing = {
        f"/{path.relative_to(ROOT)}" for room in ("docs", "tests", *ROOMS) for path in (ROOT / room).rglob("*.*")
    }
    existing |= {f"{path.rpartition('/')[0]}/" for path in existing}
    paths = {name for name in names if re.fullmatch(r"[a-z]\w*(/\w+)*/(\w+\.\w+)?", name)}
    assert sorted(name for name in paths if not any(path.endswith(f"/{name}") for path in existing)) == []
    known_words = {word for path in PATHS for word in re.findall(r"\b[A-Z]\w+", path.read_text())}
    classes = {name for name in names if re.fullmatch(r"[A-Z]\w*[a-z][A-Z]\w+", name)}
    assert sorted(classes - known_words) == []
    assert len(paths) > 100 and len(classes) > 20
