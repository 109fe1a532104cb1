"""Record the job ads that condor_submit makes of submit descriptions, in language.json.gz and projects.json.gz.

``record.py FOLDER COMMAND... < recorded.json.gz > again.json.gz`` submits each description of the file again with
``condor_submit -dry-run:full - x.sub``. COMMAND runs it in a folder, as ``chroot ROOT su alice -c 'cd cap && env -i
HOME=/home/alice USER=alice "$0" "$@"'`` does, and FOLDER is that folder as this process sees it. A new case needs
`name` and `submit`, and may have `files` and `env`. An ad is recorded as its differences from the first case's ad; null
means that it lacks the attribute. Submission times, file sizes and the folder's path are omitted."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

TIMES = {"QDate", "EnteredCurrentStatus"}


def parse_ads(printed: str) -> list[dict[str, str]]:
    """Return the attributes of each ad of a dry run."""
    blocks = re.split(r"\n\n+", printed.partition(".\n")[2].partition(".\n")[2].strip("\n"))
    return [dict(line.split(" = ", 1) for line in block.split("\n")) for block in blocks if block]


def difference(ad: dict[str, str], first: dict[str, str]) -> dict[str, str | None]:
    """Return the attributes in which an ad differs from the first one."""
    names = sorted((ad.keys() | first.keys()) - TIMES)
    return {name: ad.get(name) for name in names if ad.get(name) != first.get(name)}


def unused(lines: str) -> list[str]:
    """Return the names that condor_submit reports as unused."""
    return sorted(
        match[1] for match in re.finditer(r"(?:the line '|Queue variable ')(\S+?)(?: = [^\n]*|')\s*was unused", lines)
    )


def run_condor_submit(case: dict[str, Any], folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run condor_submit on one description, in a folder with only the files of the case."""
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for name, text in {**case.get("files", {}), "x.sub": case["submit"]}.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_text(text)
            path.chmod(0o755)
    variables = [f"{name}={text}" for name, text in case.get("env", {}).items()]
    arguments = [*command, "env", *variables, "condor_submit", "-dry-run:full", "-", "x.sub"]
    return subprocess.run(arguments, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)


def main(folder: Path, command: list[str]) -> None:
    first: dict[str, str] | None = None
    cases = []
    for case in json.loads(gzip.decompress(sys.stdin.buffer.read()))["cases"]:
        process = run_condor_submit(case, folder, command)
        if process.returncode < 0 or process.returncode > 128:
            print(f"omitted because condor_submit crashes: {case['name']}", file=sys.stderr)
            continue
        job_ads = parse_ads(process.stdout) if process.returncode == 0 else []
        first = first or job_ads[0]
        cases.append({
            **{name: case[name] for name in ("name", "project", "submit", "files", "env") if name in case},
            "rc": process.returncode,
            "ads": [difference(ad, first) for ad in job_ads],
            "unused": unused(process.stderr),
            "stderr": "" if process.returncode == 0 and "ERROR" not in process.stderr else process.stderr.strip(),
        })  # fmt: skip
    text = json.dumps({"first": first, "cases": cases}, indent=0)
    sys.stdout.buffer.write(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
