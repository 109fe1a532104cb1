"""Poolbook as its users have it: the wheel that is built of this repository, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def wheel(folder: Path) -> Path:
    """Build the wheel into a folder, without the network: hatchling is one of the development tools."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=ROOT, check=True, capture_output=True,
    )  # fmt: skip
    (found,) = folder.glob("*.whl")
    return found


def install(package: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return where its commands are.

    What it depends on is lent by this environment, so that nothing is fetched: as a plain entry of the path, which does
    not make the link of a development install count.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    lent = [path for path in sys.path if path.endswith("site-packages")]
    (site / "lent.pth").write_text("\n".join(lent))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python")]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(package)], check=True, capture_output=True)
    return folder / "bin"


def environment(commands: Path, home: Path) -> dict[str, str]:
    """What somebody new has: the commands on the path, and nothing of the repository."""
    ours = ("POOLBOOK_", "_CONDOR_", "PYTHON", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(ours)}
    return {**kept, "PATH": f"{commands}:{os.defpath}:{kept.get('PATH', '')}", "HOME": str(home), "COLUMNS": "120"}
