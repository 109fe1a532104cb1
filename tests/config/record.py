"""Record the output of condor_config_val for generated configurations.

``record.py recorded FOLDER COMMAND... > tests/data/config/recorded.json.gz``; with ``paths`` instead of ``recorded`` it
records the parts of paths. COMMAND runs condor_config_val with an environment, as ``chroot ROOT env -i PATH=/usr/bin``
does, and FOLDER is the directory that it sees as /etc. A configuration that condor_config_val rejects is recorded as
refused. Configurations on which it hangs or crashes, and values in which it reads past the end of a text, are omitted.
"""

import gzip
import json
import random
import re
import subprocess
import sys
from itertools import combinations
from pathlib import Path

COUNT = 400
NAMES = [f"N{number}" for number in range(1, 10)]
WORDS = ["a", "b c", "7", "2.5", "/x/y/z.tar.gz", "true", "A.B", '"q r"', "'s'", "1 + 2", "one, two, three", "x\\y", ""]
OPERATORS = ["=", "=", "=", " = ", " = ", ":", " : ", " += ", " +,= ", " +&&= ", " +|= ", " x = "]
TEMPLATES = [
    "POLICY : Desktop",
    "POLICY:Desktop_Idle(8, 17)",
    "POLICY : Hold_If_Runtime_Exceeds( $(N1) )",
    "POLICY : Limit_Job_Runtimes",
    "POLICY : Preempt_If(N1), Always_Run_Jobs",
    "FEATURE : PartitionableSlot(2, cpus=50%, mem=$(N2))",
    "FEATURE : StaticSlots(1,2)",
    "FEATURE : GPUs(-extra) Monitor(a, b, 3, d, e, f)",
    "FEATURE : Monitor(a, , 3, (d,e), [f,g], h, $(N1))",
    "FEATURE : ScheddCronPeriodic(tag, 10, exe, args)",
    "ROLE : Personal",
    "security : recommended(me, you)",
]
INVALID_TEMPLATES = ["FEATURE : NoSuch", "NOPE : Desktop", "FEATURE : Monitor(a)", ": Desktop", "POLICY : Desktop, x"]
CONDITIONS = [
    "true",
    "no",
    "0",
    "1.5",
    "-1",
    "$(N1)",
    "!$(N2)",
    "! defined N3",
    "defined N1",
    "defined START",
    "defined true",
    "defined use POLICY:Desktop",
    "defined use NOPE",
    "version >= 8.1.6",
    "version < 9.0",
    "! version > 30.1",
    "defined $(N1)",
    "$(UNDEFINED)",
]
INVALID_CONDITIONS = ["N1", "1 == 1", "", "defined N1 && true", "version", "defined use POLICY : Desktop"]


class Generator:
    """Generates a configuration. A name refers only to earlier names, which excludes circular references."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def piece(self, before: list[str]) -> str:
        name = self.rng.choice([*before, "UNDEFINED_NAME", "START", "MINUTE"])
        number = self.rng.randint(-3, 4)
        word = self.rng.choice(WORDS)
        letters = "".join(self.rng.sample("pnxdbwu", self.rng.randint(0, 4)))
        return self.rng.choice(
            [word] * 6
            + [f"$({name})"] * 5
            + [
                f"$({name}:{word})",
                f"$({name}:$({name}))",
                f"$({name.lower()})",
                "$ENV(HOME)",
                f"$ENV(NOT_THERE:{word})",
                "$ENV(NOT_THERE)",
                f"$$({name})",
                f"$$([{name}])",
                f"$(DOLLAR)({name})",
                f"$INT({name})",
                f"$INT({number} * 3)",
                f"$INT({name},%05d)",
                f"$REAL({name})",
                "$REAL(10/4.0,%.3f)",
                f"$STRING({name})",
                f"$STRING({name},%8s|)",
                f"$EVAL({name})",
                "$EVAL(1 + 2 > 2)",
                f"$CHOICE({abs(number) - 1}, a, b ,c)",
                f"$CHOICE(1,{name})",
                f"$SUBSTR({name},{number})",
                f"$SUBSTR({name},{number},{number + 1})",
                f"$F{letters}({name})",
                f"$F{self.rng.choice(['q', 'qa', 'qw', 'a'])}({name})",
                f"$BASENAME({name})",
                f"$DIRNAME({name})",
                f"$($({name}))",
                f"$(N$INT({number}))",
                f"$UNKNOWN({name})",
                f"$({name}",
                "$",
                "$()",
                "( )",
            ]
        )

    def value(self, before: list[str]) -> str:
        return self.rng.choice(["", " ", ", "]).join(self.piece(before) for _ in range(self.rng.randint(0, 4)))

    def choose(self, valid: list[str], invalid: list[str]) -> str:
        return self.rng.choice(invalid if self.rng.random() < 0.04 else valid)

    def setting(self) -> str:
        index = self.rng.randrange(len(NAMES))
        before = NAMES[: index + 1] if self.rng.random() < 0.3 else NAMES[:index]
        plain = NAMES[index]
        name = self.rng.choice([plain] * 6 + [plain.lower(), f"STARTD.{plain}", f"here.{plain}"])
        value = self.value(before)
        kind = self.rng.random()
        if kind < 0.1:
            tag = self.rng.choice(["end", "x y"])
            inner = "\n".join([f"  {self.value(before)}", "  # comment", "", f"{self.value(before)} \\", "  more"])
            return f"{name} @={tag}\n{inner}\n@{tag}"
        if kind < 0.2:
            return f"{name} = {value} \\\n   # a comment \\\n  {self.value(before)}"
        if kind < 0.23:
            return f"N$INT(2-1) = {value}"
        return f"{name}{self.rng.choice(OPERATORS)}{value}"

    def statement(self, depth: int) -> list[str]:
        kind = self.rng.random()
        if kind < 0.08:
            return [f"use {self.choose(TEMPLATES, INVALID_TEMPLATES)}"]
        if kind < 0.12:
            return [
                self.rng.choice(["# comment \\", "", "[heading]", "warning : $(N1)", "KILL = false", "MINUTE = 61"])
            ]
        if kind < 0.125:
            return [
                self.rng.choice(
                    ["error : no", "include ifexist : /nowhere", "include : /nowhere", "A-B = 1", ":N1 = 7", "N1"]
                )
            ]
        if kind < 0.3 and depth < 3:
            lines = [f"if {self.choose(CONDITIONS, INVALID_CONDITIONS)}", *self.block(depth + 1)]
            if self.rng.random() < 0.4:
                lines += [f"elif {self.choose(CONDITIONS, INVALID_CONDITIONS)}", *self.block(depth + 1)]
            if self.rng.random() < 0.5:
                lines += ["else", *self.block(depth + 1)]
            return [*lines, *(["endif"] if self.rng.random() < 0.99 else [])]
        return [self.setting()]

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self.rng.randint(1, 3 if depth else 9)) for line in self.statement(depth)]

    def text(self) -> str:
        return "\n".join(self.block(0)) + "\n"


def parse_dump(output: str) -> dict[str, dict[str, str]]:
    """Parse the output of ``-dump -verbose``: each setting's raw and expanded value, and its source."""
    settings: dict[str, dict[str, str]] = {}
    current: dict[str, str] = {}
    open_part = ""
    for line in output.split("\n"):
        setting = re.fullmatch(r"([\w./]+) (=|@=end)(?: (.*))?", line)
        part = re.fullmatch(r" # (at|expanded|default): ?(.*)", line)
        if open_part == "raw":
            if line == "@end":
                open_part = ""
                current["raw"] = current["raw"].removeprefix("\n")
            else:
                current["raw"] += "\n" + line[3:]
        elif part is not None:
            current[part[1]] = part[2]
            open_part = "expanded" if part[1] == "expanded" and "\n" in current["raw"] else ""
        elif open_part == "expanded" and line.startswith(" #"):
            current["expanded"] += "\n" + line[7:]
        elif "expanded" in current and line and setting is None and line[0] != "#":
            current["expanded"] += f"\n{line}"
        elif setting is not None:
            current = settings[setting[1]] = {"raw": setting[3] or ""}
            open_part = "raw" if setting[2] == "@=end" else ""
    return {name: {key: value.strip("\n") for key, value in parts.items()} for name, parts in settings.items()}


def record_configuration(folder: Path, command: list[str], text: str, subsystem: str) -> dict[str, object] | None:
    (folder / "recorded.conf").write_text(text, encoding="utf-8")
    local = ["-local-name", "here"] if subsystem == "SCHEDD" else []
    pattern = "^(" + "|".join([*NAMES, "START", "KILL", "SLOT.*", "WANT_.*", ".*CRON.*", ".*[.]N[0-9]"]) + ")$"
    environment = ["CONDOR_CONFIG=/etc/recorded.conf", "HOME=/home/me", "_CONDOR_N9=from $(N1) outside"]
    arguments = ["-subsystem", subsystem, *local, "-dump", "-verbose", pattern]
    try:
        process = subprocess.run(
            [*command, *environment, "condor_config_val", *arguments], capture_output=True, timeout=5
        )
    except subprocess.TimeoutExpired:
        return None
    if process.returncode < 0 or process.returncode > 100:
        return None
    case: dict[str, object] = {"text": text, "subsystem": subsystem}
    errors = process.stderr.decode(errors="replace")
    if "Configuration Error" in errors:
        return case | {"refused": errors}
    return case | {"settings": parse_dump(process.stdout.decode()), "complaint": errors}


PATHS = [
    "/a/b/c.tar.gz",
    "c.txt",
    ".bashrc",
    "/a/.x",
    "/a/b/",
    "a\\b\\c.d",
    "'q/r.s'",
    '"/q/r.s"',
    "/a.b/c",
    "plain",
    "a/b/c/d/e",
    "/",
    "//x//y.z",
    '""',
    "it's/x.y",
]
LETTERS = ["".join(letters) for count in range(4) for letters in combinations("pnxdbwuqa", count)]
MORE_LETTERS = ["dd", "ddn", "ddd", "dddb", "ddnx", "wpnx", "uw", "pnxq", "pnxqa", "nxqb"]


def record_paths(folder: Path, command: list[str]) -> dict[str, object]:
    """Record the values of ``$F`` with all its letters, ``$BASENAME`` and ``$DIRNAME`` for some paths."""
    settings = {}
    for number, path in enumerate(PATHS):
        for letters in (*LETTERS, *MORE_LETTERS):
            if letters.count("d") < 2 or letters.count("d") <= path.count("/") + path.count("\\"):
                settings[f"R_{letters or 'none'}_{number}"] = f"[$F{letters}(P{number})]"
        settings |= {f"B_{number}": f"[$BASENAME(P{number})]", f"S_{number}": f"[$BASENAME(P{number},.gz)]"}
        settings |= {f"T_{number}": f"[$BASENAME(P{number}, .S)]", f"D_{number}": f"[$DIRNAME(P{number})]"}
    lines = [f"P{number} = {path}" for number, path in enumerate(PATHS)]
    text = "\n".join([*lines, *(f"{name} = {value}" for name, value in settings.items())]) + "\n"
    (folder / "recorded.conf").write_text(text, encoding="utf-8")
    tool = [*command, "CONDOR_CONFIG=/etc/recorded.conf", "condor_config_val"]
    answers = {}
    for name in settings:
        process = subprocess.run([*tool, name], capture_output=True, timeout=5)
        if process.returncode == 0 and process.stdout.isascii():
            answers[name] = process.stdout.decode().rstrip("\n")
    return {"text": text, "answers": answers}


def record_configurations(folder: Path, command: list[str]) -> list[dict[str, object]]:
    cases: list[dict[str, object]] = []
    seed = 0
    while len(cases) < COUNT:
        seed += 1
        case = record_configuration(folder, command, Generator(seed).text(), "SCHEDD" if seed % 5 == 0 else "STARTD")
        cases += [] if case is None else [case]
    return cases


def main() -> None:
    kind, folder, *command = sys.argv[1:]
    recording = record_paths if kind == "paths" else record_configurations
    data = recording(Path(folder), command)
    sys.stdout.buffer.write(gzip.compress(json.dumps(data, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main()
