"""Golden: a new user installs the wheel outside the repository, and types the commands of README and tutorial."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..pool.real import Folder
from ..together import together
from .installed import ROOT, environment, install, wheel
from .transcript import Step, equal, equal_output, output_for_pages, steps, type_steps, updated_page

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


def test_the_tutorials_commands_print_what_it_shows(commands: Path, home: Path) -> None:
    page_steps = steps(TUTORIAL)
    for step, output in zip(page_steps, type_steps(page_steps, home, environment(commands, home)), strict=True):
        assert equal(step, output), (
            f"$ {step.typed[0]}\n{output}\nIf this is intended, run python docs/generate.py tutorial"
        )


def test_the_readmes_commands_install_run_and_explain(commands: Path, home: Path) -> None:
    installs, runs, asks = steps(README)
    assert re.match(r"pip install \. .*uv tool install \. .*pipx install \.$", installs.typed[0])
    _, run_output, answer = type_steps(
        [Step(("command -v poolbook",), ""), runs, asks], home, environment(commands, home)
    )
    assert len(re.findall(r"^1\.\d+ .* completed ", run_output, re.MULTILINE)) == 24
    assert "Job 1.0 ended" in answer


def test_the_readmes_program_needs_no_file_of_the_repository(commands: Path, home: Path) -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    print_path = "import poolbook\nprint(poolbook.__file__)\n"
    output = subprocess.run(
        [commands / "python", "-c", program + print_path],
        cwd=home, env=environment(commands, home), capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    assert output[0] == "[(4, 2), (5, 2)]"
    assert Path(output[1]).is_relative_to(commands.parent)


# Tests of the comparison: one that accepts everything would test nothing.


@together(
    ("shown", "output", "result"),
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
def test_outputs_are_compared_except_for_numbers(shown: str, output: str, result: bool) -> None:
    assert equal_output(shown, output) is result


def test_a_page_is_read_step_by_step_and_wrong_output_is_replaced() -> None:
    first, second = "$ cat > a <<'END'\n> 1\n> END\n$ ls\na 1\n", "$ ls | wc\n2\n"
    page = f"x\n\n```console\n{first}```\n\n```text\n$ no\n```\n\n```console\n{second}```\n"
    assert steps(page) == [Step(("cat > a <<'END'", "1", "END"), ""), Step(("ls",), "a 1\n"), Step(("ls | wc",), "2\n")]
    assert updated_page(page, ["", "b\n", "7\n"]) == page.replace("a 1\n", "b\n")


def test_output_on_pages_has_no_name_of_this_machine(tmp_path: Path) -> None:
    assert output_for_pages(f"in {tmp_path}/a\n", tmp_path) == "in /home/alice/a\n"
