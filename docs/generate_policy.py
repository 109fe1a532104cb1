"""Draws the tables of docs/policy.md anew from the rules of the owner's policy."""

from pathlib import Path

from poolbook.domain.startd.policy_page import fill

PAGE = Path(__file__).resolve().parent / "policy.md"

if __name__ == "__main__":
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
