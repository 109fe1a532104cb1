"""Draws the tables and diagrams of docs/state-machines.md anew from the rows that the code enforces."""

from pathlib import Path

from poolbook.domain.state_machines.diagrams import fill

PAGE = Path(__file__).resolve().parent / "state-machines.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
