"""Hypothesis strategies that write pools: slots, a job, expressions about both, and changes to the slots.

They extend `strategies.py`, its expressions and ads, by policies as in real pools. As there, the choices are read from
one string of bytes, and shrink with it. The texts are written first; then the slots and the job get most of the
attributes that the texts mention. A slot's attribute comes from a small palette, so that a column may be the same in
all slots, or of one kind, or mixed, or missing in some slots.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from poolbook.domain.classad import ClassAd, ClassAdSyntaxError, Expression, parse
from poolbook.domain.classad.tree import Literal

from .strategies import KIND_OF, TOP
from .strategies import _Writer as Writer

Texts = dict[str, str]


def words(text: str) -> list[str]:
    return text.split()


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


# The values in an ad, by name: literals, or expressions that use others.
_CELLS = {
    line.partition(" = ")[0]: line.partition(" = ")[2].split(" ; ")
    for line in lines("""
    Cpus = 1 ; 2 ; 4 ; 8 ; 64 ; 0 ; 2.0 ; undefined
    TotalCpus = 8.0 ; 16 ; 64.5 ; Cpus ; 0
    Memory = 512 ; 2048 ; 8192 ; 257000 ; 4294967296 ; 1.5 ; quantize(TotalMemory, 128)
    TotalMemory = 16384 ; 257000 ; Memory * 2 ; 0
    Disk = 1048576 ; 9223372036854775807 ; 20000 ; -1
    LoadAvg = 0.0 ; 0.35 ; 1.0 ; 3.5 ; 1e400 ; real("NaN") ; 0.1 ; -0.0
    CondorLoadAvg = 0.0 ; 0.3 ; 1.0 ; LoadAvg
    KeyboardIdle = 0 ; 59 ; 901 ; 1226 ; 100000
    State = "Unclaimed" ; "Owner" ; "Claimed" ; "unclaimed" ; undefined
    Activity = "Idle" ; "Busy" ; "Suspended" ; "Retiring"
    Arch = "X86_64" ; "x86_64" ; "aarch64"
    OpSys = "LINUX" ; "linux" ; "WINDOWS" ; "macOS"
    OpSysAndVer = "Rocky8" ; "AlmaLinux9" ; "WINDOWS1000" ; strcat(OpSys, OpSysMajorVer)
    OpSysMajorVer = 8 ; 9 ; 22 ; "9"
    Name = "slot1@e01.example.com" ; "slot1_2@e01.example.com" ; "slot2@é" ; strcat("slot", SlotID, "@", Machine)
    Machine = "e01.example.com" ; "E01.example.com" ; "e02.cern.ch"
    SlotID = 1 ; 2 ; 10
    SlotType = "Partitionable" ; "Dynamic" ; "Static"
    PartitionableSlot = true ; false ; SlotType == "Partitionable"
    Draining = false ; true
    Offline = false ; true ; undefined
    GPUs = 0 ; 1 ; 4 ; size(AvailableGPUs)
    GPUs_Capability = 7.5 ; 8.0 ; "8.0"
    KFlops = 1400000 ; 978000 ; 1.5e6
    Mips = 20000 ; 31000 ; 9223372036854775807
    HasDocker = true ; false
    HasFileTransfer = true ; false ; 1
    HasJava = true ; JavaVersion =!= undefined
    FileSystemDomain = "example.com" ; "cern.ch" ; "Example.com"
    UidDomain = "cs.wisc.edu" ; "cern.ch"
    Site = "WISC" ; "wisc" ; "UCSD" ; undefined
    SiteName = "WISC" ; "MIT"
    NODE_STATUS = "All_OK" ; "ALL_OK" ; "Bad"
    JavaVersion = "11.0.20" ; "17.0.1" ; "1.8.0_292"
    CondorVersion = "$CondorVersion: 25.14.1 2026-10-16 $" ; "$CondorVersion: 9.0.17 2022-09-29 $" ; "none"
    ClockMin = 0 ; 480 ; 1171
    ClockDay = 0 ; 3 ; 6
    AllowedGroups = {"group_bio", "group_physics"} ; {} ; {AcctGroup} ; "group_bio" ; {TARGET.AcctGroup, 1}
    PreferredUsers = "jones, alice, coltrane" ; "" ; "bob" ; Owner
    ChildCpus = {1, 2, 4} ; {} ; {Cpus, 8}
    IsOwner = (START =?= false) ; false ; Start =!= true
    CpuBusy = ((LoadAvg - CondorLoadAvg) >= 0.5) ; false
    AllowForeign = true ; false
    EnteredCurrentState = 1699999000 ; 1699990000 ; 1700000000
    MyCurrentTime = 1700000000 ; 1700000060
    RequestCpus = 1 ; 2 ; 8 ; ifThenElse(WantBig, 8, 1) ; 1.0
    RequestMemory = 128 ; 1024 ; 16384 ; quantize(ImageSize / 1024, 128) ; MemoryUsage ?: 1
    RequestDisk = 1024 ; DiskUsage * 2 ; DiskUsage
    RequestGPUs = 0 ; 1 ; 2 ; undefined
    DiskUsage = 100 ; 69449 ; 2000000
    ImageSize = 5000 ; 2777428
    MemoryUsage = 800 ; (ResidentSetSize + 1023) / 1024 ; undefined
    ResidentSetSize = 20000 ; 2094783
    WantBig = true ; false
    WantDocker = true ; false ; undefined
    JobUniverse = 5 ; 7 ; 11 ; 5.0
    JobStatus = 1 ; 2 ; 5
    JobPrio = -10 ; 0 ; 7
    NiceUser = true ; false
    QDate = 1699969618 ; 1600000000
    Owner = "alice" ; "bob" ; "coltrane" ; "Alice" ; "jones"
    User = "alice@cern.ch" ; "bob@cs.wisc.edu" ; "bob" ; strcat(Owner, "@", UidDomain)
    AcctGroup = "group_bio" ; "group_physics" ; "GROUP_bio" ; "nice-user"
    AccountingGroup = "group_physics.alice" ; "nice-user.bob" ; AcctGroup
    Department = "Physics" ; "CS" ; "physics"
    DESIRED_Sites = "mit, cern" ; "WISC,UCSD" ; ""
    LastRemoteHost = "slot1@e01.example.com" ; "e02.cern.ch"
    Requirements = Start ; START && WithinResourceLimits ; true ; 1 ; TARGET.Requirements
    Rank = 0.0 ; TARGET.JobPrio ; Memory ; Rank + 1
    """)
}

# Conditions and ranks as in real pools; some belong to a slot, some to a job, and here either may have any.
POLICIES = lines("""
    true
    Start
    TARGET.Start
    START && WithinResourceLimits
    (START) && (IsValidCheckpointPlatform =!= false)
    Start && (TARGET.RequestMemory <= Memory)
    TARGET.Requirements =?= true
    IsOwner =!= true && (START)
    CpuBusy || IsOwner
    (Cpus > 0) && (Memory > 0) && (TARGET.RequestCpus <= Cpus) && (TARGET.RequestMemory <= MY.Memory)
    MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus && MY.Disk > 0 && TARGET.RequestDisk <= MY.Disk
    (TARGET.RequestGPUs =?= undefined || MY.GPUs >= TARGET.RequestGPUs)
    ifThenElse(TARGET.RequestCpus =!= undefined, MY.Cpus > 0 && TARGET.RequestCpus <= MY.Cpus, 1 <= MY.Cpus)
    (TARGET.Arch == "X86_64") && (TARGET.OpSys == "LINUX") && (TARGET.Disk >= RequestDisk)
    TARGET.Arch == "X86_64" && (TARGET.Disk >= RequestDisk) && (TARGET.Memory >= RequestMemory)
    TARGET.Memory >= RequestMemory && TARGET.Cpus >= RequestCpus && TARGET.OpSysMajorVer >= 8
    (Disk >= MY.RequestDisk) && (TARGET.HasFileTransfer) && (TARGET.Name =!= LastRemoteHost)
    (TARGET.FileSystemDomain == MY.FileSystemDomain) || (TARGET.HasFileTransfer)
    OpSysAndVer == "Rocky8" || OpSysAndVer == "rocky8"
    (TARGET.HasDocker =?= true) && (WantDocker =?= true) || MY.WantDocker =!= true
    TARGET.Site == "WISC" || isUndefined(TARGET.Site)
    (SiteName ?: "x") != "FNAL"
    stringListMember(TARGET.SiteName, DESIRED_Sites)
    stringListIMember(TARGET.Site, DESIRED_Sites) =?= true
    stringListMember(TARGET.Owner, PreferredUsers) || TARGET.NiceUser
    member(AcctGroup, TARGET.AllowedGroups)
    member(TARGET.AcctGroup, AllowedGroups) =!= false
    anyCompare(">=", TARGET.ChildCpus, RequestCpus)
    versionGE(split(TARGET.CondorVersion)[1], "9.0.17")
    versionCmp(JavaVersion, "11.0.3") >= 0
    regexp("^(alice|bob|jones)$", TARGET.Owner)
    regexp("^slot1", TARGET.Name) && splitSlotName(Name)[1] =!= Machine
    splitUserName(TARGET.User)[1] == UidDomain || AllowForeign
    regexp("^nice-user\\\\.", TARGET.AccountingGroup)
    KeyboardIdle > 15 * 60 && LoadAvg < 1.0
    (KeyboardIdle > 900) && ((LoadAvg - CondorLoadAvg) <= 0.3 || (State != "Unclaimed" && State != "Owner"))
    (ClockMin > 480 && ClockMin < 1020) == false || TARGET.Department == "Physics"
    NODE_STATUS =?= "All_OK" && Offline =!= true
    Draining =?= false && (PartitionableSlot ? Cpus > 1 : Activity == "Idle")
    (Activity == "Suspended") && ((1700000000 - EnteredCurrentState) > 600)
    (TARGET.Owner =!= undefined) && (TARGET.JobUniverse == 5 || TARGET.JobUniverse == 7)
    !(TARGET.NiceUser && (Cpus > 8))
    ifThenElse(SlotID == 1, TARGET.RequestGPUs > 0, (TARGET.RequestGPUs ?: 0) == 0)
    TARGET.TotalMemory / TARGET.TotalCpus >= RequestMemory / RequestCpus
    countMatches(MY.RequireGPUs, TARGET.AvailableGPUs) >= RequestGPUs
    TARGET.GPUs_Capability >= "8.0"
    8 * (TARGET.Department =?= "Physics") + 1 * (TARGET.AcctGroup == "group_bio")
    TARGET.Memory + 1000 * (TARGET.Cpus > 4)
    (RequestMemory > TARGET.Memory ? 0 : 1) * 20 + (TARGET.Cpus == RequestCpus) * 5
    KFlops / TARGET.TotalCpus
    (Machine == "e02.cern.ch") * 100 + Mips
    ((Owner == "coltrane") + (Owner == "alice")) * 10 - LoadAvg
    quantize(TARGET.Memory, 1024) - TARGET.Memory
    JobPrio + ifThenElse(NiceUser, -10, 7)
    Memory * Cpus * (1 + (Arch == "X86_64"))
    GPUs_Capability ?: 0
    TARGET.Rank
    0 - TARGET.Cpus
    -LoadAvg
    strcat(State, "/", Activity)
    TARGET.State
    MY.Owner
    time() - EnteredCurrentState > 600
    random(10) < 5
    (eval(Owner) ?: Cpus) =!= undefined
    unresolved(Start) =!= ""
    evalInEachContext(Capability >= 7.5, AvailableGPUs)[0]
    noSuchFunction(Cpus) > 1
    other.Cpus > 1 && (self.Owner ?: true)
    .RIGHT.Cpus =!= LEFT.Cpus
""")
# Those that jobs have.
_OF_JOBS = words(
    "RequestCpus RequestMemory RequestDisk RequestGPUs DiskUsage ImageSize MemoryUsage ResidentSetSize WantBig"
    " WantDocker JobUniverse JobStatus JobPrio NiceUser QDate Owner User AcctGroup AccountingGroup Department"
    " DESIRED_Sites LastRemoteHost RequireGPUs"
)
# Conditions that are often true.
_LIKELY = [
    *("TARGET.Cpus >= 1", "(Memory > 600)", "TARGET.Cpus > 1", "Cpus =!= 4", "(TARGET.KeyboardIdle >= 59)"),
    *('State != "Claimed"', 'TARGET.Arch == "x86_64"', "TARGET.Offline =!= true", "Draining =?= false"),
    *("TARGET.RequestMemory <= 2048", 'Owner != "bob"', "TARGET.JobUniverse =!= 11", "(RequestCpus < 4)"),
    *("TARGET.Cpus >= RequestCpus", "RequestCpus <= Cpus", "TARGET.Memory >= RequestMemory", "Nope =?= undefined"),
    *("1", "2.5", "Cpus", "MY.Cpus > 0 || TARGET.Cpus > 0", "TARGET.LoadAvg < 3", "-LoadAvg < 1", "TARGET.X =!= 7"),
    *('regexp("^slot1", TARGET.Name)', 'member(TARGET.AcctGroup, {"group_bio", "group_physics"}) =!= false'),
]
_STARTS = ["Requirements", "Start", "IsOwner", "Rank", "WithinResourceLimits"]

# For columns of all kinds.
_ANYTHING = [
    *("0", "1", "1.0", "true", "-1", "2", "false", '"a"', '"A"', '"1"', "undefined", "error", "0.0", "-0.0", "0.1"),
    *("9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992.0", "63", "64", "1e400"),
    *("-1e400", 'real("NaN")', "1e308", '"é"', '"É"', '""', "{1, 2}", "{}", "[a = 1]", "absTime(60)", "relTime(60)"),
    *("Cpus", "TARGET.Owner", "MY.Cpus + 1", "X", 'relTime("1:00")', 'absTime("2024-02-29T12:34:56Z")', "1/0"),
]
_SCOPED = re.compile(r"\b(MY|TARGET)\.(\w+)")
_WORD = re.compile(r"[A-Za-z_]\w*")
_OTHERS = words("I J R Ok S L NL TL N O T D SL Environment Args X Y U AvailableGPUs RequireGPUs GPU_a GPU_b MinMem")
_NAMES = {name.lower(): name for name in [*_OTHERS, *_STARTS, *_CELLS]}
# Reals that no literal represents; as values, not as calls.
_REALS = {'real("NaN")': math.nan, 'real("INF")': math.inf, 'real("-inf")': -math.inf}


class Step(NamedTuple):
    """A change: "add" an ad, "update" or "merge" it into the slot at a position, "remove" the slots at some
    positions."""

    what: str
    places: tuple[int, ...]
    texts: Texts


class Pool(NamedTuple):
    slots: list[Texts]
    job: Texts
    cluster: Texts  # the ad to which the job's is chained
    expressions: list[str]
    steps: list[Step]

    def __repr__(self) -> str:
        facts = [f"job: {self.job}", f"its cluster: {self.cluster}"]
        facts += [f"expression: {text}" for text in self.expressions]
        facts += [f"slot {place}: {texts}" for place, texts in enumerate(self.slots)]
        # Hypothesis warns about longer ones.
        return "\n".join(["", *facts, *(f"then: {step}" for step in self.steps)])[:10_000]


@lru_cache(50_000)
def expression(text: str) -> Expression:
    return Literal(_REALS[text]) if text in _REALS else parse(text)


def is_sound(pool: Pool) -> bool:
    """Return True if all of a pool's texts are expressions."""
    ads = [pool.job, pool.cluster, *pool.slots, *(step.texts for step in pool.steps)]
    try:
        for text in {text for texts in ads for text in texts.values()}.union(pool.expressions):
            expression(text)
    except ClassAdSyntaxError:
        return False
    return True


def ad(texts: Texts) -> ClassAd:
    return ClassAd({name: expression(text) for name, text in texts.items()})


class PoolWriter(Writer):
    """Writes pools."""

    def policy(self, depth: int = 1) -> str:
        """Write a condition or a rank; sometimes a composed one."""
        if depth > 0 and self.chance(2):
            first, right = self.policy(depth - 1), self.policy(depth - 1)
            form = self.pick(
                [
                    *("({0}) && ({1})", "({0}) && ({1})", "{0} && {1}", "({0}) || ({1})", "({0}) + ({1})"),
                    *("({0}) ? ({1}) : 0", "({0}) ?: ({1})", "!({0}) && ({1})", "({0}) =?= ({1})"),
                    *("({0}) < ({1})", "debug({0}) && ({1})", "({0}) == ({1})", '({0}) ? "y" : undefined'),
                ]
            )
            return form.format(first, right)
        if self.chance(4):
            return self.write(self.pick(TOP), 2)
        return self.comparison() if self.chance(5) else self.pick(POLICIES)

    def turned(self, text: str, side: str) -> str:
        """Add MY and TARGET to most names in the text: for a job or for a slot."""

        def scope(match: re.Match[str]) -> str:
            is_own = (_NAMES.get(match[2].lower()) in _OF_JOBS) == (side == "job")
            return ("MY." if is_own else "TARGET.") + match[2]

        return text if self.chance(6) else _SCOPED.sub(scope, text)

    def comparison(self) -> str:
        names = self.pick([["Cpus", "Memory", "Disk", "LoadAvg"], ["State", "Owner", "Name", "S"], [*_CELLS]])
        first, right = (self.pick(["{0}", "TARGET.{0}", "MY.{0}"]).format(self.pick(names)) for _ in "lr")
        if self.chance(2):
            right = self.pick(self.literals(first.rpartition(".")[2]))
        operator = self.pick(words("== < <= > >= != =?= =!= + - * / % && || ?: & << >>>"))
        return f"{first} {operator} {right}"

    def literals(self, name: str) -> list[str]:
        return [text for text in _CELLS.get(name, ["1"]) if text[0] in '"0123456789'] or ["true"]

    def cell(self, name: str) -> str:
        """Write the value of a name in an ad."""
        if name in ("Requirements", "Start") and not self.chance(6):
            return self.pick(["true", "Start", "START && true"]) if self.chance(3) else self.requirements("slot")
        if name in _STARTS:
            return self.turned(self.policy(), "slot")
        if name not in _CELLS:
            return self.attribute(name) if name.lower() in KIND_OF else self.policy()
        if name.lower() in KIND_OF and self.chance(4):
            return self.attribute(name)
        if self.chance(12):
            return self.write(self.pick(TOP), 1)
        return self.pick(_CELLS[name])

    def pool(self, least: int = 5, steps: bool = False) -> Pool:
        count = least + self.below(36)
        general = self.expression() if self.chance(3) else self.policy(0)
        expressions = [self.turned(text, "job") for text in (self.policy(), general, self.comparison())]
        if self.chance(3):
            expressions.append(self.pick(["TARGET.Requirements", "TARGET.Start", "TARGET.Rank"]))
        texts = [*expressions, "Requirements Name"]
        job: Texts = {}
        if not self.chance(12):
            job["Requirements"] = self.requirements("job")
        if not self.chance(5):
            job["Rank"] = self.turned(self.policy(), "job")
        texts += job.values()
        palettes: dict[str, list[str]] = {}
        for name in self.names(texts):
            where = self.home(name)
            if where in ("slot", "both"):
                palettes[name] = self.palette(name)
            if where in ("job", "both"):
                job.setdefault(name, self.cell(name))
        inner = [text for palette in palettes.values() for text in palette] + list(job.values())
        for name in self.names(inner):
            if name not in palettes and name not in job and not self.chance(4):
                if self.home(name) == "job":
                    job[name] = self.cell(name)
                else:
                    palettes[name] = [self.cell(name), self.cell(name)]
        if self.chance(30):
            # An attribute with the name of a scope.
            name, texts = self.pick(words("MY TARGET Self OTHER RIGHT parent")), ["[Cpus = 3]", "5", "TARGET"]
            if self.chance(2):
                job[name] = self.pick(texts)
            else:
                palettes[name] = texts[: 1 + self.below(3)]
        slots = [self.slot(palettes) for _ in range(count)]
        cluster = {name: job.pop(name) for name in self.some([*job], 4)} if job and self.chance(4) else {}
        return Pool(slots, job, cluster, expressions, self.steps(palettes) if steps else [])

    def home(self, name: str) -> str:
        """Return where an attribute is defined."""
        if name in _STARTS:
            return "slot"
        if name in _OF_JOBS:
            return self.pick(["job"] * 8 + ["both", "slot"])
        return self.pick(["slot"] * 12 + ["both"] * 3 + ["job", "none"])

    def requirements(self, side: str = "job") -> str:
        """Write an ad's requirements about the other: mostly something that can be true."""
        if self.chance(3):
            return self.turned(self.policy(2), side)
        clauses = [self.pick(_LIKELY) for _ in range(1 + self.below(3))]
        if self.chance(2):
            clauses.insert(self.below(len(clauses)), f"({self.policy(0)} || {self.pick(_LIKELY)})")
        return self.turned(self.pick([" && ", " && ", " || "]).join(clauses), side)

    def palette(self, name: str) -> list[str]:
        """Write the texts that an attribute has in the slots."""
        if name in _CELLS and self.chance(6):
            form = self.pick(["{0}", "{0}", "{0}.25", '"{0}.{1}"', '"slot{0}@e{1}"', "Cpus + {0}"])
            return [form.format(self.below(256), self.below(256)) for _ in range(24)]
        size = self.pick([1, 2, 1, 3, 5])
        if name not in _STARTS and self.chance(8):
            return [self.pick(_ANYTHING) for _ in range(size)]
        return [self.cell(name) for _ in range(size)]

    def slot(self, palettes: dict[str, list[str]]) -> Texts:
        texts = {}
        for name, palette in palettes.items():
            # If there are several texts, each slot has one or, more rarely, none.
            choice = self.below(2 * len(palette) + len(palette) // 2) if len(palette) > 1 else 0
            if choice < 2 * len(palette):
                texts[name] = palette[choice % len(palette)]
        return texts

    def names(self, texts: Iterable[str]) -> list[str]:
        """Return the attributes that the texts mention."""
        mentioned = dict.fromkeys(word.lower() for text in texts for word in _WORD.findall(text))
        return [_NAMES[word] for word in mentioned if word in _NAMES]

    def steps(self, palettes: dict[str, list[str]]) -> list[Step]:
        return [self.step(palettes) for _ in range(1 + self.below(6))]

    def step(self, palettes: dict[str, list[str]]) -> Step:
        change = self.pick(["merge", "update", "add", "merge", "remove"])
        if change == "remove":
            return Step(change, tuple(self.below(50) for _ in range(1 + self.below(4))), {})
        texts = self.slot(palettes)
        if change == "merge":
            texts = {name: texts[name] for name in self.some([*texts], 3)} if texts else {}
        # Values that slots had before, and a new one.
        for name in self.some([*palettes], 2) if palettes else []:
            texts[name] = self.cell(name)
        if self.chance(4):
            name = self.pick([*_CELLS])
            texts[name] = self.cell(name)
        return Step(change, (self.below(50),), texts)


def pools(*, steps: bool = False) -> SearchStrategy[Pool]:
    """Draw slots, a job, and expressions about them; with ``steps`` also changes to the slots."""
    written = st.binary(min_size=500, max_size=1500).map(lambda choices: PoolWriter(choices).pool(steps=steps))
    return written.filter(is_sound)
