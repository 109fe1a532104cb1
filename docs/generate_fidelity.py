"""Writes the section of docs/fidelity.md anew that lists what two pools say of the same jobs otherwise."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / ".path")]

from tests.beside.page import HEAD, PAGE, section  # noqa: E402

if __name__ == "__main__":
    old = re.compile(rf"^{HEAD}\n.*?(?=^## )", re.MULTILINE | re.DOTALL)
    PAGE.write_text(old.sub(lambda _: section() + "\n", PAGE.read_text(encoding="utf-8")), encoding="utf-8")
