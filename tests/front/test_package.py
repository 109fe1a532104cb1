"""Golden: the wheel's content and its metadata."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path
from zipfile import ZipFile

import pytest

from poolbook.adapters.cli.documentation import documentation_files
from poolbook.adapters.cli.main import COMMANDS, main
from poolbook.adapters.machine.host import VERSION

from .installed import ROOT, wheel

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return ZipFile(wheel(tmp_path_factory.mktemp("wheel")))


@pytest.fixture(scope="module")
def metadata(package: ZipFile) -> Message:
    return message_from_bytes(package.read(f"poolbook-{VERSION}.dist-info/METADATA"))


def test_it_has_the_packages_pages_and_examples_and_no_tests_or_tools(package: ZipFile) -> None:
    names = set(package.namelist())
    pages = {
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("docs/tried/*.md"),
        *ROOT.glob("docs/*.svg"),
        *ROOT.glob("docs/*.tsv"),
        *(path for path in EXAMPLES.rglob("*") if path.is_file()),
    }
    required = {f"poolbook/{path.relative_to(ROOT)}" for path in pages if "__pycache__" not in path.parts}
    assert {name for name in names if name.startswith("poolbook/docs/")} == required
    assert "psij-descriptors/poolbook_descriptor.py" in names
    assert {"poolbook/py.typed", f"poolbook-{VERSION}.dist-info/licenses/LICENSE"} < names
    rooms = {name.split("/")[1] for name in names if name.startswith("poolbook/")}
    assert rooms == {
        "__init__.py", "events.py", "results.py", "testing.py", "py.typed", "domain", "projections", "replay",
        "adapters", "docs",
    }  # fmt: skip


def test_it_has_the_data_files_of_the_domain(package: ZipFile) -> None:
    data = [path for path in (ROOT / "domain").rglob("*.*") if path.suffix not in (".py", ".pyc")]
    assert len(data) > 2
    assert {f"poolbook/{path.relative_to(ROOT)}" for path in data} <= set(package.namelist())


def test_it_has_the_files_of_the_web_page(package: ZipFile) -> None:
    page = [path for path in (ROOT / "adapters" / "web" / "page").rglob("*") if path.is_file()]
    assert {"index.html", "app.js", "style.css", "htm-preact.js", "uplot-LICENSE.txt"} <= {path.name for path in page}
    assert {f"poolbook/{path.relative_to(ROOT)}" for path in page} <= set(package.namelist())


def test_a_source_package_makes_the_same_wheel(package: ZipFile, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*build, "-t", "sdist"], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(tmp_path / f"poolbook-{VERSION}.tar.gz") as source:
        source.extractall(tmp_path, filter="data")
    subprocess.run([*build, "-t", "wheel"], cwd=tmp_path / f"poolbook-{VERSION}", check=True, capture_output=True)
    (second_wheel,) = tmp_path.glob("*.whl")
    with ZipFile(second_wheel) as other:
        assert set(other.namelist()) == set(package.namelist())


def test_its_metadata_has_the_summary_and_the_licence(metadata: Message) -> None:
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == "Apache-2.0"
    assert "Version 2.0, January 2004" in (ROOT / "LICENSE").read_text()
    for field in ("Summary", "Author", "Keywords", "Classifier", "Requires-Python"):
        assert metadata[field], field


def test_its_description_is_the_readme_without_links_into_the_repository(metadata: Message) -> None:
    text = metadata.get_payload()
    assert isinstance(text, str)
    assert text.startswith("# Poolbook\n")
    assert re.findall(r"\]\((?!https?:)", text) == []
    pages = re.findall(r"`poolbook doc (?!-)(\S+?)`", text)
    assert {"tutorial", "tools", "import"} <= set(pages) <= documentation_files().keys()


def test_dependencies_of_some_pools_are_extras(metadata: Message) -> None:
    required = metadata.get_all("Requires-Dist") or []
    always = {re.split(r"[^\w-]", text)[0] for text in required if "extra ==" not in text}
    assert "psycopg" not in always and "eventsourcing" in always
    assert any(text.startswith("psycopg[binary]") and "extra == 'postgres'" in text for text in required)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_pages_and_examples_that_help_names_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "-help"]) == 0
    output = capsys.readouterr().out
    assert re.findall(r"docs/[\w./]+\w", output) == (["docs/PAGE.md", "docs/examples"] if command == "doc" else [])
    assert set(re.findall(r"poolbook doc ([a-z][\w.]+)", output)) <= documentation_files().keys()


def test_the_example_of_a_real_pool_equals_the_recording() -> None:
    recorded = ROOT / "tests" / "data" / "traces" / "02-owner-return"
    example_files = sorted((EXAMPLES / "owner-return").iterdir())
    assert len(example_files) == 7
    assert [path.read_bytes() for path in example_files] == [
        (recorded / path.name).read_bytes() for path in example_files
    ]


# poolbook doc


@pytest.mark.parametrize("page_name", ["play", "play.md", "docs/play.md"])
def test_a_page_is_printed_by_any_of_its_names(page_name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doc", page_name]) == 0
    assert capsys.readouterr().out == (ROOT / "docs" / "play.md").read_text()


def test_without_a_name_the_contents_list_every_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doc"]) == 0
    output = capsys.readouterr().out
    pages = {path.stem for path in ROOT.glob("docs/*.md")} - {"README"}
    assert set(re.findall(r"\]\((\w[\w-]*)\.md\)", output)) == pages
    names = {path.name for path in EXAMPLES.iterdir()} - {"__pycache__", "pi.py", "seeds.txt"}
    assert names <= set(re.findall(r"`([\w.-]+)`", output))


def test_the_folder_of_the_pages_is_printed_for_shells(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doc", "-folder"]) == 0
    assert Path(capsys.readouterr().out.strip()) == ROOT / "docs"
    assert main(["doc", "-folder", "desktop.play"]) == 0
    assert Path(capsys.readouterr().out.strip()) == EXAMPLES / "desktop.play"


def test_an_unknown_page_is_answered_with_similar_names(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doc", "tutorail"]) == 2
    assert "did you mean tutorial?" in capsys.readouterr().err
    assert main(["doc", "zzzz"]) == 2
    assert "`poolbook doc` lists the pages" in capsys.readouterr().err
    assert main(["doc", "play", "why"]) == 2
    assert "specify only one page" in capsys.readouterr().err
