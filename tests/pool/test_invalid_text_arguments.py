"""Property: an argument that is not valid text works, or is refused with a message."""

from __future__ import annotations

import os
from pathlib import Path

from .. import forked
from .real import POOLBOOK, Folder, environment

NONE = os.fsdecode(b"\xff")
CALLS = [
    (["submit", f"j{NONE}.sub", "-log", f"l{NONE}.db"], 1),
    (["q", "-log", f"l{NONE}.db"], 0),
    (["verify", "-log", f"l{NONE}.db"], 0),
    (["doctor", "-log", f"l{NONE}.db"], None),
    (["submit", f"j{NONE}.sub", f"a={NONE}", "-append", f"arguments={NONE}"], 1),
    (["hold", NONE], 1),
    (["rm", "-constraint", f'Owner == "{NONE}"'], 1),
    (["why", NONE], 2),
    (["config", NONE], 1),
    (["play", NONE], 1),
    (["import", NONE], 1),
]


def test_an_argument_that_is_not_valid_text_works_or_is_refused_with_a_message(folder: Folder, tmp_path: Path) -> None:
    (tmp_path / f"j{NONE}.sub").write_text("executable = /bin/true\nhold = true\nqueue\n")
    exit_codes = []
    for arguments, code in CALLS:
        completed = forked.run([*POOLBOOK, *arguments], cwd=folder.path, env=environment())
        assert "not foreseen" not in completed.stderr and "Traceback" not in completed.stderr, ascii(
            (arguments, completed.stderr)
        )
        exit_codes.append((arguments, code if code is None else completed.returncode))
    assert exit_codes == CALLS, ascii(exit_codes)
