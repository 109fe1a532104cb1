"""Records what the real condor_config_val says of generated configurations.

``record.py recorded FOLDER COMMAND... > tests/data/config/recorded.json.gz``, and ``paths`` in place of ``recorded``
for the parts of paths: COMMAND is what condor_config_val and its environment stand behind, as in ``chroot ROOT env -i
PATH=/usr/bin``, and FOLDER the folder that it sees as /etc. A configuration that the real one refuses is recorded as
refused; one on which it hangs or crashes is left out, and so is a value in which it reads beyond a text's end.
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
WRONG_TEMPLATES = ["FEATURE : NoSuch", "NOPE : Desktop", "FEATURE : Monitor(a)", ": Desktop", "POLICY : Desktop, x"]
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
WRONG_CONDITIONS = ["N1", "1 == 1", "", "defined N1 && true", "version", "defined use POLICY : Desktop"]


class Maker:
    """Makes one configuration; a name refers to names before it only, so that none leads back to itself."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def piece(self, before: list[str]) -> str:
        name = self.draw.choice([*before, "UNDEFINED_NAME", "START", "MINUTE"])
        number = self.draw.randint(-3, 4)
        word = self.draw.choice(WORDS)
        letters = "".join(self.draw.sample("pnxdbwu", self.draw.randint(0, 4)))
        return self.draw.choice(
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
                f"$F{self.draw.choice(['q', 'qa', 'qw', 'a'])}({name})",
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
        return self.draw.choice(["", " ", ", "]).join(self.piece(before) for _ in range(self.draw.randint(0, 4)))

    def one_of(self, right: list[str], wrong: list[str]) -> str:
        return self.draw.choice(wrong if self.draw.random() < 0.04 else right)

    def setting(self) -> str:
        at = self.draw.randrange(len(NAMES))
        before = NAMES[: at + 1] if self.draw.random() < 0.3 else NAMES[:at]
        name = self.draw.choice([NAMES[at]] * 6 + [NAMES[at].lower(), f"STARTD.{NAMES[at]}", f"here.{NAMES[at]}"])
        value = self.value(before)
        kind = self.draw.random()
        if kind < 0.1:
            tag = self.draw.choice(["end", "x y"])
            inner = "\n".join([f"  {self.value(before)}", "  # comment", "", f"{self.value(before)} \\", "  more"])
            return f"{name} @={tag}\n{inner}\n@{tag}"
        if kind < 0.2:
            return f"{name} = {value} \\\n   # a comment \\\n  {self.value(before)}"
        if kind < 0.23:
            return f"N$INT(2-1) = {value}"
        return f"{name}{self.draw.choice(OPERATORS)}{value}"

    def statement(self, depth: int) -> list[str]:
        kind = self.draw.random()
        if kind < 0.08:
            return [f"use {self.one_of(TEMPLATES, WRONG_TEMPLATES)}"]
        if kind < 0.12:
            return [
                self.draw.choice(["# comment \\", "", "[heading]", "warning : $(N1)", "KILL = false", "MINUTE = 61"])
            ]
        if kind < 0.125:
            return [
                self.draw.choice(
                    ["error : no", "include ifexist : /nowhere", "include : /nowhere", "A-B = 1", ":N1 = 7", "N1"]
                )
            ]
        if kind < 0.3 and depth < 3:
            lines = [f"if {self.one_of(CONDITIONS, WRONG_CONDITIONS)}", *self.block(depth + 1)]
            if self.draw.random() < 0.4:
                lines += [f"elif {self.one_of(CONDITIONS, WRONG_CONDITIONS)}", *self.block(depth + 1)]
            if self.draw.random() < 0.5:
                lines += ["else", *self.block(depth + 1)]
            return [*lines, *(["endif"] if self.draw.random() < 0.99 else [])]
        return [self.setting()]

    def block(self, depth: int) -> list[str]:
        return [line for _ in range(self.draw.randint(1, 3 if depth else 9)) for line in self.statement(depth)]

    def text(self) -> str:
        return "\n".join(self.block(0)) + "\n"


def told(output: str) -> dict[str, dict[str, str]]:
    """What ``-dump -verbose`` says: by name the raw value, the expanded one, the source."""
    found: dict[str, dict[str, str]] = {}
    now: dict[str, str] = {}
    inner = ""
    for line in output.split("\n"):
        setting = re.fullmatch(r"([\w./]+) (=|@=end)(?: (.*))?", line)
        part = re.fullmatch(r" # (at|expanded|default): ?(.*)", line)
        if inner == "raw":
            if line == "@end":
                inner = ""
                now["raw"] = now["raw"].removeprefix("\n")
            else:
                now["raw"] += "\n" + line[3:]
        elif part is not None:
            now[part[1]] = part[2]
            inner = "expanded" if part[1] == "expanded" and "\n" in now["raw"] else ""
        elif inner == "expanded" and line.startswith(" #"):
            now["expanded"] += "\n" + line[7:]
        elif "expanded" in now and line and setting is None and line[0] != "#":
            now["expanded"] += f"\n{line}"
        elif setting is not None:
            now = found[setting[1]] = {"raw": setting[3] or ""}
            inner = "raw" if setting[2] == "@=end" else ""
    return {name: {key: value.strip("\n") for key, value in one.items()} for name, one in found.items()}


def record(folder: Path, command: list[str], text: str, subsystem: str) -> dict[str, object] | None:
    (folder / "recorded.conf").write_text(text, encoding="utf-8")
    local = ["-local-name", "here"] if subsystem == "SCHEDD" else []
    pattern = "^(" + "|".join([*NAMES, "START", "KILL", "SLOT.*", "WANT_.*", ".*CRON.*", ".*[.]N[0-9]"]) + ")$"
    environment = ["CONDOR_CONFIG=/etc/recorded.conf", "HOME=/home/me", "_CONDOR_N9=from $(N1) outside"]
    words = [*command, *environment, "condor_config_val", "-subsystem", subsystem, *local, "-dump", "-verbose", pattern]
    try:
        done = subprocess.run(words, capture_output=True, timeout=5)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode < 0 or done.returncode > 100:
        return None
    answer: dict[str, object] = {"text": text, "subsystem": subsystem}
    complaint = done.stderr.decode(errors="replace")
    if "Configuration Error" in complaint:
        return answer | {"refused": complaint}
    return answer | {"settings": told(done.stdout.decode()), "complaint": complaint}


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
LETTERS = ["".join(some) for count in range(4) for some in combinations("pnxdbwuqa", count)]
MORE_LETTERS = ["dd", "ddn", "ddd", "dddb", "ddnx", "wpnx", "uw", "pnxq", "pnxqa", "nxqb"]


def paths(folder: Path, command: list[str]) -> dict[str, object]:
    """What ``$F`` with all its letters, ``$BASENAME`` and ``$DIRNAME`` make of some paths."""
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
    words = [*command, "CONDOR_CONFIG=/etc/recorded.conf", "condor_config_val"]
    answers = {}
    for name in settings:
        done = subprocess.run([*words, name], capture_output=True, timeout=5)
        if done.returncode == 0 and done.stdout.isascii():
            answers[name] = done.stdout.decode().rstrip("\n")
    return {"text": text, "answers": answers}


def configurations(folder: Path, command: list[str]) -> list[dict[str, object]]:
    cases: list[dict[str, object]] = []
    seed = 0
    while len(cases) < COUNT:
        seed += 1
        case = record(folder, command, Maker(seed).text(), "SCHEDD" if seed % 5 == 0 else "STARTD")
        cases += [] if case is None else [case]
    return cases


def main() -> None:
    what, folder, *command = sys.argv[1:]
    found = paths(Path(folder), command) if what == "paths" else configurations(Path(folder), command)
    sys.stdout.buffer.write(gzip.compress(json.dumps(found, indent=0).encode(), mtime=0))


if __name__ == "__main__":
    main()
