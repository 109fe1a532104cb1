"""Draws the tables of docs/import.md anew from the facts that the audit compares."""

from pathlib import Path

from poolbook.replay.forensics.audit.rules_page import fill

PAGE = Path(__file__).resolve().parent / "import.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
