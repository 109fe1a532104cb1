"""Records what a real condor_submit makes of submit descriptions: language.json.gz and projects.json.gz.

``record.py FOLDER COMMAND... < recorded.json.gz > again.json.gz`` submits each description of the file again, by
``condor_submit -dry-run:full - x.sub``. COMMAND is what it stands behind, as in ``chroot ROOT su alice -c 'cd cap &&
env -i HOME=/home/alice USER=alice "$0" "$@"'``, and FOLDER that folder as this process sees it. A new case needs `name`
and `submit`, and may have `files` and `env`. Of an ad what differs from the first case's is kept: null is an attribute
that it lacks. The times of the submission, the sizes of files and the path of the folder are left out."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMES = {"QDate", "EnteredCurrentStatus"}


def ads(printed: str) -> list[dict[str, str]]:
    """The ads of a dry run, by their attributes."""
    blocks = re.split(r"\n\n+", printed.partition(".\n")[2].partition(".\n")[2].strip("\n"))
    return [dict(line.split(" = ", 1) for line in block.split("\n")) for block in blocks if block]


def difference(ad: dict[str, str], first: dict[str, str]) -> dict[str, str | None]:
    """What an ad has otherwise than the first one."""
    names = sorted((ad.keys() | first.keys()) - TIMES)
    return {name: ad.get(name) for name in names if ad.get(name) != first.get(name)}


def unused(lines: str) -> list[str]:
    """The names that condor_submit calls unused."""
    return sorted(
        found[1] for found in re.finditer(r"(?:the line '|Queue variable ')(\S+?)(?: = [^\n]*|')\s*was unused", lines)
    )


def submitted(case: dict[str, Any], folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Have condor_submit read one description, in an empty folder but for the case's own files."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in {**case.get("files", {}), "x.sub": case["submit"]}.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text(text)
            path.chmod(0o755)
    own = [f"{name}={text}" for name, text in case.get("env", {}).items()]
    words = [*command, "env", *own, "condor_submit", "-dry-run:full", "-", "x.sub"]
    return subprocess.run(words, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def main(folder: Path, command: list[str]) -> None:
    first: dict[str, str] | None = None
    cases = []
    for case in json.loads(gzip.decompress(sys.stdin.buffer.read()))["cases"]:
        done = submitted(case, folder, command)
        if done.returncode < 0 or done.returncode > 128:
            print(f"left out, since condor_submit crashes: {case['name']}", file=sys.stderr)
            continue
        made = ads(done.stdout) if done.returncode == 0 else []
        first = first or made[0]
        cases.append({
            **{name: case[name] for name in ("name", "project", "submit", "files", "env") if name in case},
            "rc": done.returncode,
            "ads": [difference(ad, first) for ad in made],
            "unused": unused(done.stderr),
            "stderr": "" if done.returncode == 0 and "ERROR" not in done.stderr else done.stderr.strip(),
        })  # fmt: skip
    text = json.dumps({"first": first, "cases": cases}, indent=0)
    sys.stdout.buffer.write(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
