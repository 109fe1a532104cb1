"""Golden: somebody new installs the wheel away from the repository, and types what README and tutorial say."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..pool.real import Folder
from ..together import together
from .installed import ROOT, environment, install, wheel
from .transcript import Step, alike, redrawn, said_for_pages, steps, typed

TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text()
README = (ROOT / "README.md").read_text()


@pytest.fixture(scope="module")
def commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    return install(wheel(folder), folder / "environment")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    folder = Folder(tmp_path)
    yield tmp_path
    folder.kill_everything()


def test_the_tutorial_goes_as_it_says(commands: Path, home: Path) -> None:
    shown = steps(TUTORIAL)
    for step, came in zip(shown, typed(shown, home, environment(commands, home)), strict=True):
        assert alike(step.came, came), (
            f"$ {step.typed[0]}\n{came}\nIf this is intended, run python docs/generate.py tutorial"
        )


def test_the_readme_s_lines_install_run_and_ask(commands: Path, home: Path) -> None:
    installs, runs, asks = steps(README)
    assert re.match(r"pip install \. .*uv tool install \. .*pipx install \.$", installs.typed[0])
    _, ran, told = typed([Step(("command -v poolbook",), ""), runs, asks], home, environment(commands, home))
    assert len(re.findall(r"^1\.\d+ .* completed ", ran, re.MULTILINE)) == 24
    assert "Job 1.0 ended" in told


def test_the_readme_s_program_needs_nothing_of_the_repository(commands: Path, home: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    where = "import poolbook\nprint(poolbook.__file__)\n"
    said = subprocess.run(
        [commands / "python", "-c", program + where],
        cwd=home, env=environment(commands, home), capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert said[0] == "[(4, 2), (5, 2)]"
    assert Path(said[1]).is_relative_to(commands.parent)


# The comparison, compared: one that finds everything alike holds nothing.


@together(
    ("shown", "came", "same"),
    [
        ("1.0 ran 2.5 s\n", "17.3 ran   0 s\n", True),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\n", "a\n", True),
        ("a\n...\nd\n", "b\nd\n", False),
        ("held\n", "idle\n", False),
        ("a\n", "a\nb\n", False),
        ("", "pool.db: sound\n", False),
        ("a...\n", "ab\n", False),
    ],
)
def test_what_came_is_compared_but_for_numbers(shown: str, came: str, same: bool) -> None:
    assert alike(shown, came) is same


def test_a_page_is_read_step_by_step_and_redrawn_where_it_is_not_true() -> None:
    first, second = "$ cat > a <<'END'\n> 1\n> END\n$ ls\na 1\n", "$ ls | wc\n2\n"
    page = f"x\n\n```console\n{first}```\n\n```text\n$ no\n```\n\n```console\n{second}```\n"
    assert steps(page) == [Step(("cat > a <<'END'", "1", "END"), ""), Step(("ls",), "a 1\n"), Step(("ls | wc",), "2\n")]
    assert redrawn(page, ["", "b\n", "7\n"]) == page.replace("a 1\n", "b\n")


def test_what_came_is_shown_as_nobody_s_own(tmp_path: Path) -> None:
    assert said_for_pages(f"in {tmp_path}/a\n", tmp_path) == "in /home/alice/a\n"
