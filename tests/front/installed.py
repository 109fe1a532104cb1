"""Poolbook as users install it: the wheel built from this repository, in a separate environment."""

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
    (path,) = folder.glob("*.whl")
    return path


def install(package: Path, folder: Path) -> Path:
    """Install a wheel into a new environment, and return its commands' directory. This environment lends the
    dependencies, so nothing is downloaded: as a plain entry of the path, which does not make the link of a development
    install count."""
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    lent_paths = [path for path in sys.path if path.endswith("site-packages")]
    (site / "lent.pth").write_text("\n".join(lent_paths))
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(folder / "bin/python")]
    subprocess.run([*pip, "install", "--no-deps", "--no-index", str(package)], check=True, capture_output=True)
    return folder / "bin"


def environment(commands: Path, home: Path) -> dict[str, str]:
    """Return a new user's environment: the commands on the path, and no part of the repository."""
    prefixes = ("POOLBOOK_", "_CONDOR_", "PYTHON", "PYTEST")
    variables = {name: value for name, value in os.environ.items() if not name.upper().startswith(prefixes)}
    return {
        **variables,
        "PATH": f"{commands}:{os.defpath}:{variables.get('PATH', '')}",
        "HOME": str(home),
        "COLUMNS": "120",
    }
