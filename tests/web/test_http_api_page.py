"""The commands on the page about the HTTP API print the output shown."""

import doctest
import re
import subprocess
from pathlib import Path

from .client import served_pool

PAGE = Path(__file__).parent.parent.parent / "docs" / "http-api.md"
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)


def test_the_commands_on_the_page_print_the_output_shown(tmp_path: Path) -> None:
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    steps = [match for block in blocks for match in COMMAND.findall(block)]
    assert len(steps) >= 12
    with served_pool(tmp_path) as pool:
        script = "".join(f"{command}\nprintf '\\n\\036'\n" for command, _ in steps)
        script = script.replace("http://127.0.0.1:8080", pool.url.rstrip("/"))
        done = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    for (command, expected), output in zip(steps, done.stdout.split("\036"), strict=False):
        want, got = (text.strip() + "\n" for text in (expected, output))
        assert doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS), (command, output, done.stderr)
