"""Golden: everything that `import poolbook` offers exists, errors included, and the page on the library lists each
error."""

from __future__ import annotations

import ast
import builtins
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import assert_type

import pytest

import poolbook
from poolbook import Log, Pool, PoolbookError, follow_pool, import_pool
from poolbook.domain import errors
from poolbook.domain.ports.log import LogMissing

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")

INSIDE = {
    "CleanupError": "the cleanup of checkpoints records it, and tries again later",
    "CannotStart": "the master records it, and tries again later",
    "MasterRefusal": "the master answers with it",
    "MasterRefused": "the command prints it",
    "DaemonLogError": "the command prints it",
    "NotFound": "the HTTP service answers with it",
    "ServiceError": "the command prints it",
    "AuthorityError": "the commands print it, and the manager does not start",
    "_Skip": "the evaluation of a metric ends: the metric is not published",
    "StashError": "condor_adstash prints it",
    "_CannotRun": "a container's shim catches it: the job is held",
    "_Failed": "the transfer that raises it repeats the request",
    "ListChanged": "the transfer reads the list of files again",
    "StaleRequest": "the server of files rejects the request",
    "_KilledEarly": "a container's shim catches it: it ends",
    "NeedsPreEvaluation": "the server catches it: it asks the jobs, and decides again",
    "CannotExpandError": "the schedd catches it: the job is held",
    "CircularMacroError": "the readers of submit descriptions and configurations catch it",
    "EditError": "the command prints it",
    "ExportError": "the command prints it",
    "DiscoveryFailed": "condor_gpu_discovery prints it",
    "GpuError": "the callers of NVML catch it",
    "MonitorFailed": "condor_gpu_utilization prints it",
    "Help": "the commands print it",
    "Version": "the commands print it",
    "InvalidExport": "the command prints it",
    "InvalidWorkload": "the command prints it",
    "InvalidCronTab": "the schedd catches it: the job is held",
    "ManagerError": "the command prints it",
    "LeftToClientError": "the server answers that the client has to read its file",
    "MacroError": "the readers of submit descriptions and configurations catch it",
    "NoAccount": "the caller that starts jobs catches it: the job is held, or waits",
    "NoNegotiator": "the commands print it",
    "NotAllowed": "a decision that the tables do not allow is a defect",
    "NotHere": "the commands print it",
    "NotRecorded": "the commands print it",
    "NotStageable": "the executor of PSI/J raises an InvalidJobException",
    "NotRun": "the server catches it: the job is held",
    "TemplateImpossible": "the reader of submit descriptions catches it",
    "PlayError": "`poolbook play` prints it, and `poolbook.testing` exports it",
    "ExpectationError": "`poolbook.testing` exports it",
    "Rejected": "the manager's service answers with it",
    "ScenarioFailure": "pytest prints it",
    "QueryElsewhere": "the command runs where the log is",
    "PluginError": "the transfer catches it: it counts as one of its failures",
    "SpoolError": "the tools print it",
    "TooLongError": "the commands print it",
    "TransferError": "the transfer that raises it counts it, and continues with the other files",
    "QuotingError": "the readers of submit descriptions and configurations catch it",
    "PrivateFileError": "the commands print it",
    "RequestError": "the commands print it; a client's request for a token is rejected",
    "RequestRefused": "the commands print it",
    "SigningKeyError": "the commands print it",
    "StartError": "the supervisor catches it: the job is held",
    "TokenRejected": "the caller that verifies a token rejects its holder",
    "TransformError": "the schedd catches it: the submission is refused",
    "UnknownSubjectError": "the command prints it",
    "UnknownFuture": "the search for the next change catches it",
    "Unreadable": "the reader of job event logs catches it",
    "UnreadableEntry": "the command prints it",
    "UnreadableToken": "the parser catches it",
    "Unsupported": "the evaluation over columns catches it",
    "UsageError": "the commands print it",
    "UserLogError": "the writer of the views and the jobs' logs catches it",
    "_BrokenError": "the process that answers a job's condor_chirp ends the connection",
    "_ChirpFailed": "condor_chirp prints it",
    "_CommandFailed": "the command prints it",
    "ToolError": "the commands print it",
    "_TransferFailed": "the plugin for URLs reports it, and ends with exit code 1",
    "_SlotDependent": "the evaluation over columns catches it",
    "_ParseFailure": "the parser catches it",
    "TooMuchError": "the importer reads no more of the file, and says so",
    "ToolEnded": "the tool prints it and ends with its code",
}
"""Exceptions that no public call raises, and who catches them."""


def exceptions() -> Iterator[tuple[str, list[str]]]:
    """Return the exceptions that are defined in the package, with their bases."""
    for room in ("domain", "projections", "replay", "adapters"):
        for path in (ROOT / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    yield node.name, [ast.unparse(base) for base in node.bases]


def raised_on_purpose() -> set[str]:
    """Return the exceptions raised on purpose, by the names of their bases."""
    builtin_errors = {
        name for name, kind in inspect.getmembers(builtins, inspect.isclass) if issubclass(kind, BaseException)
    }
    of_python = set(builtin_errors)
    classes = list(exceptions())
    while further := {
        name for name, bases in classes if name not in builtin_errors and builtin_errors.intersection(bases)
    }:
        builtin_errors |= further
    return builtin_errors - of_python


def public_errors() -> dict[str, type[BaseException]]:
    exported = ((name, getattr(poolbook, name)) for name in poolbook.__all__)
    return {name: kind for name, kind in exported if inspect.isclass(kind) and issubclass(kind, BaseException)}


def test_every_public_name_exists() -> None:
    assert set(poolbook.__all__) == {*poolbook._LAZY, "__version__", "events", "results"}
    for name, module in poolbook._LAZY.items():
        kind = getattr(poolbook, name)
        if inspect.isclass(kind) and issubclass(kind, PoolbookError):
            assert kind.__module__ == "poolbook", f"a traceback names {name} as programs do"
            assert pickle.loads(pickle.dumps(kind)) is kind
        else:
            assert kind.__module__.startswith(f"poolbook{module}"), name
    with pytest.raises(AttributeError, match="has no attribute 'Pol'"):
        poolbook.Pol  # type: ignore[attr-defined]  # noqa: B018


def test_names_that_are_not_public_keep_their_module() -> None:
    assert {name for name, kind in public_errors().items() if issubclass(kind, PoolbookError)} == errors._PUBLIC
    assert LogMissing.__module__ == "poolbook.domain.ports.log"


def test_the_calls_of_a_pool_are_typed_by_public_names() -> None:
    with Pool.open(user="alice") as pool:
        pool.submit({"executable": "/bin/work"})
        outcomes = assert_type(pool.hold(1), list[poolbook.Outcome])
        assert outcomes == [{"cluster": 1, "first": 0, "last": 0, "result": "done", "changes": {}}]
        assert isinstance(assert_type(pool.state, poolbook.State), poolbook.State)


def test_importing_the_package_loads_none_of_its_modules() -> None:
    code = "import sys, poolbook; print([name for name in sys.modules if name.startswith('poolbook.')])"
    environment = {"PYTHONPATH": str(ROOT / ".path")}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "[]\n"


def test_every_error_is_public_or_caught_inside() -> None:
    public = public_errors()
    refined = {
        name for kind in public.values() if kind is not PoolbookError for name in (k.__name__ for k in _below(kind))
    }
    assert raised_on_purpose() == {*public, *refined, *INSIDE}
    assert not set(INSIDE) & {*public, *refined}


def _below(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


def test_every_public_error_has_the_one_base() -> None:
    base_errors = {name for name, kind in public_errors().items() if not issubclass(kind, PoolbookError)}
    assert base_errors == {"ConfigWarning", "SubmitWarning"}


def test_the_page_lists_every_public_error_with_its_bases() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \|", PAGE.partition("## Errors")[2], re.MULTILINE))
    assert rows == {
        name: ", ".join(f"`{base.__name__}`" for base in kind.__bases__) for name, kind in public_errors().items()
    }


@pytest.mark.parametrize("kind", [Pool, Log, import_pool, follow_pool])
def test_every_error_that_a_public_call_documents_is_public(kind: type) -> None:
    members = [kind, *(getattr(kind, name) for name in dir(kind) if not name.startswith("_"))]
    raised_names = {name for member in members for name in re.findall(r":raises (\w+):", inspect.getdoc(member) or "")}
    assert raised_names
    assert raised_names <= {*public_errors(), "ValueError", "TypeError", "OSError"}


@pytest.mark.parametrize("kind", [Pool, Log])
def test_every_public_call_is_documented_and_typed(kind: type) -> None:
    for name in dir(kind):
        if name.startswith("_") or not callable(getattr(kind, name)):
            continue
        assert inspect.getdoc(getattr(kind, name)), name
        assert "return" in getattr(kind, name).__annotations__, name
