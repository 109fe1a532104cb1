"""Hypothesis strategies that write ClassAd texts: expressions, ads, and texts that are damaged.

The choices are read from one string of bytes, 0 being the simplest, and not drawn one by one: of
many small draws hypothesis would vary a few at a time, and five texts of six would be the same as
one before.

An expression is written for a *kind* of value (a bool, a version string, a list of numbers ...), so
that most of them mean something; now and then a part of another kind is put in on purpose.

Some input is left out because the reference does not survive it (it reads freed memory or recurses
without end), so there would be no answer to compare with:

- nesting of hundreds of levels; past its limit of 500 the parser keeps a stale pointer;
- `.name` of a list that a function has made, as in `split("a b").x`, and `countMatches` or
  `evalInEachContext` over such a list, or with a first argument that makes a list or an ad: the
  list is freed while it is walked;
- `ad["name"]`, `formatTime(ad)`, `countMatches` and `evalInEachContext` on anything that leads back
  to where they stand: they begin a new evaluation, which does not see the circle;
- calendar functions next to numbers that could become a year beyond the calendar: what the
  reference prints then is what stood on its stack;

or because the answer is not a matter of the language: the functions that ask for the time, chance
or the host's users, the attribute CurrentTime, and the names which the reference's match itself
defines (LEFT, RIGHT, symmetricMatch ...).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

# See above. splitTime and formatTime take plain numbers, so there any product may be too much.
_CALENDAR = re.compile("absTime|get(Year|Month|Day|Hours|Minutes|Seconds)", re.I)
_HUGE = re.compile(r"\d{16}|\de\+?\d\d|inf", re.I)
_SPLIT = re.compile("splitTime|formatTime", re.I)
_WIDE = re.compile(r"\d{11}|<<|>>>|pow|\*|\de\+?\d|inf|nan|int\(|floor|ceil|round", re.I)


class Case(NamedTuple):
    """An expression with the ads to evaluate it in, in the new form."""

    text: str
    my: str
    target: str | None


def quote(value: str) -> str:
    """Return a string literal."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def has_an_answer(texts: Iterable[str | None]) -> bool:
    """Return True if the reference's answer does not depend on the contents of its stack."""
    text = " ".join(filter(None, texts))
    if _CALENDAR.search(text) and _HUGE.search(text):
        return False
    return not (_SPLIT.search(text) and _WIDE.search(text))


def new_form(ad: Mapping[str, str]) -> str:
    return "[ " + "; ".join(f"{name} = {text}" for name, text in ad.items()) + " ]"


def _words(text: str) -> list[str]:
    return text.split()


# Literals --------------------------------------------------------------------------------------

_INTEGERS = _words(
    "0 1 2 3 -1 5 7 10 60 100 -017 2147483647 2147483648 -2147483648 -2147483649 4294967296 "
    "9223372036854775807 9223372036854775808 -9223372036854775808 1700000000"
)
_REALS = _words(
    "0.0 1.0 0.5 .5 1.5 2.5 -0.0 -1.5 3.7 0.1 1E-3 100.0 1e6 2147483647.5 1e15 123456789.125 "
    "1e19 1e308 -1e308 1e400 -1e400 5e-324"
)
_STRINGS = [
    *("", "a", "A", "b", "abc", "ABC", "Hello World", "x y", " a ", "true", "FALSE", "undefined"),
    *("0", "12", "-3", "+4", "12abc", "0x1f", "017", " 3.5 ", "1e3", "1e400", "inf", "-INF", "nan"),
    *("a,b,c", "a@b", "$Version: 1 $", 'say "hi"', "back\\slash", "tab\tnew\nline", "it's", "%d"),
    *("é", "日本", "ÀÉ", "straße", "\x01\x7f"),
]
_ESCAPED = [r'"\101\102"', r'"\x41"', r'"\q\?\'"', r'"\303\251"', r'"\303"', r'"\a\v\f\r"', '"a" "b"']
_LETTERS = "abAB01 .,-@\\\"'é"

_TIMES = [
    "2023-11-14T22:13:20",
    "2023-11-14T22:13:20Z",
    "2023-11-14T22:13:20+01:00",
    "2024-02-29T12:34:56-05:30",
    "2024-12-31",
    "1970-01-01T00:00:00",
    "1969-12-31T23:59:58-00:00",
    "2038-01-19 03:14:08",
]
_BAD_TIMES = ["2024-02-30T", "1969-12-31T23:59:59-00:00", "1969-12-31T23:59:58-0000", "noon", "", "2024", "1:2:3:4"]
_SECONDS = _words("0 1 59 60 3600 3661 86399 86400 90061 -1 -60 -90061 1700000000")
_SPANS = ["60", "1:00", "01:02:03", "1+02:03:04", "-1+00:00:01", "00:00:05.5", "2d", "-5"]

_REGEXES = [
    *("a", "^a", "b$", "^a.*c$", "[a-c]+", "(a)(b)?", "A|B", "x*", "", ".", r"\d+", r"^\w+@", r"\."),
    *("^$", "(a", "[", "a{2}", "(?i)ABC", "(?:b)", r"\bb", "a b", "^slot(\\d+)_?(\\d*)", "é", "+"),
]
_SUBSTITUTES = [r"\0", r"\1", r"\2-\1", "x", "", r"<\0>", r"\9", "\\", r"\a", r"\\0"]
_VERSIONS = _words("1.0 1.00 1.2.3 1.10 1.9 10.0.1 9.0.17 25.14.1 1.0rc1 1.0-2 01.2 1.a 1.A a B v2 007 7")
_STRING_LISTS = [
    *("a,b,c", "a, b ,c", "a b c", "a,,b", "", " , ", "A,B", "abc", "a;b;c", "b a", ",a,", "a:b,c"),
    *("1,2,3", "1.5, 2", "-1,-2", "10 20 30", "x,1", "1e3,2", "0x10,1", "+5", "1.0,2.0", "inf,1"),
]
_ENVIRONMENTS_1 = ["", "A=1", "A=1;B=2", "A=1|B=2", "A=a b;C='q'", "A", "=1", ";;A=1", 'A="x"', "A="]
_ENVIRONMENTS_2 = ["", "A=1", "A=1 B=2", "A='a b'", "A='it''s' B=2", "B=3", "A", "=x", "A='", "C= A=2"]
_ARGUMENTS = ["", "a b c", "'a b' c", "'it''s'", "a  b", "'", '"a b"', "-n 10 'x y' ''", "a\tb", "a'b'"]
_FORMATS = [
    *("%Y-%m-%d", "%H:%M:%S", "%c", "%a %A", "%b %B", "%j", "%d %e", "%I %p", "%U %W %w", "%y %C"),
    *("%D %T", "%F", "%R", "%h%n%t%%", "%x %X", "%u %V %G %g", "%s", "%z", "%Z", "", "plain", "%Q"),
    *("%k %l %P", "%r", "%", "%5Y", "%-d", "%Ey %Od"),
]
_CODE = [
    *("1 + 1", "Cpus", "Cpus > 2", "TARGET.Memory", "S", "(", "", "{ 1,2 }", "[a = 1]", '"x"'),
    *("1 ? 2 : 3 junk", "1 junk", "undefined", "1/0", "Nope ?: 3", "-017", "0x1F", "// c", "1 // c"),
]


def _quoted(values: Iterable[str]) -> list[str]:
    return [quote(value) for value in values]


def _call(name: str, arguments: Iterable[str]) -> list[str]:
    return [f"{name}({argument})" for argument in arguments]


_LITERALS: dict[str, list[str]] = {
    "int": [*map(str, range(20)), *map(str, range(-20, 0)), *_INTEGERS, *_INTEGERS],
    "small": [*map(str, range(8)), *map(str, range(-4, 0))],
    "real": [*_REALS, *_REALS, 'real("NaN")', 'real("INF")', 'real("-inf")'],
    "bool": _words("true false True FALSE"),
    "str": [*_quoted(_STRINGS), *_quoted(_STRINGS), *_ESCAPED],
    "undefined": ["undefined"],
    "error": ["error"],
    "abstime": [
        *_call("absTime", map(quote, _TIMES)),
        *_call("absTime", _SECONDS),
        *_call("absTime", [f"{s}, {z}" for s in _SECONDS for z in ("0", "3600", "-19800")]),
        "absTime(0, -1)",
    ],
    "reltime": _call("relTime", [*_SECONDS, "0.5", "90061.75", "-1.25", "1e6", "0.0"]),
    "span": _call("relTime", map(quote, _SPANS)),
    "regex": _quoted(_REGEXES),
    "options": _quoted(["i", "", "m", "s", "x", "g", "f", "fg", "ig", "I", "q"]),
    "substitute": _quoted(_SUBSTITUTES),
    "version": _quoted(_VERSIONS),
    "stringlist": _quoted(_STRING_LISTS),
    "item": _quoted(["a", "b", "A", "c", "", "1", "abc", " a", "a,b"]),
    "separators": _quoted([",", ", ", ";", " ", "", ":;", "b", "\t"]),
    "env1": _quoted(_ENVIRONMENTS_1),
    "env2": _quoted(_ENVIRONMENTS_2),
    "args": _quoted(_ARGUMENTS),
    "syntax": _words("1 2 1 2 3"),
    "format": _quoted(_FORMATS),
    "comparison": _quoted(["<", "<=", "==", "!=", ">=", ">", "is", "isnt", "=?=", "=!=", "IS", ""]),
    "user": _quoted(["bob@cs.wisc.edu", "bob", "a@b@c", "@", "", "slot1_2@host.example.org", "x@"]),
    "code": _quoted(_CODE),
    # Contains only literals: see formatTime in the module's first lines.
    "timead": [
        '[Type = "AbsoluteTime"; Year = 2024; Month = 2; Day = 29; Hours = 1; Seconds = 5]',
        "[Year = 1999; Month = 12; Day = 31]",
        "[Year = 2023; Month = 13; Day = 1; Minutes = 75]",
        "[]",
    ],
}

# Attributes ------------------------------------------------------------------------------------

# The names for a value of a kind. The value of such a name in an ad is mostly of that kind.
_NAMES = {
    "int": ["Cpus", "Memory", "I"],
    "small": ["J"],
    "real": ["LoadAvg", "R"],
    "bool": ["Ok", "Offline"],
    "str": ["S", "Owner"],
    "list": ["L"],
    "numbers": ["NL"],
    "strings": ["TL"],
    "ad": ["N", "O"],
    "abstime": ["T"],
    "reltime": ["D"],
    "stringlist": ["SL"],
    "version": ["CondorVersion"],
    "user": ["User"],
    "env2": ["Environment"],
    "args": ["Args"],
    "any": ["X", "Y", "U"],
    "gpus": ["AvailableGPUs"],
    "requirement": ["RequireGPUs"],
    "gpu": ["GPU_a", "GPU_b"],
    "plain": ["MinMem"],
}
KIND_OF = {name.lower(): kind for kind, names in _NAMES.items() for name in names}
_SPELLING = {name.lower(): name for names in _NAMES.values() for name in names}
# Always of their kind, so that no circle can go through them (see above).
_FIXED = {"gpus", "requirement", "gpu", "plain"}
_MEMBERS = ["a", "b", "Cpus", "c", "S", "inner"]
_WORD = re.compile(r"[A-Za-z_]\w*")

# Functions -------------------------------------------------------------------------------------

# name, kind of the result, kinds of the arguments ("?": optional, "*": any number of them)
FUNCTIONS = {
    name: (result, arguments)
    for name, result, *arguments in map(
        str.split,
        """
        isUndefined bool any
        isError bool any
        isString bool any
        isInteger bool any
        isReal bool any
        isBoolean bool any
        isList bool any
        isClassAd bool any
        isAbsTime bool any
        isRelTime bool any
        ifThenElse same bool same same
        eval any code
        debug same same
        unparse str name
        unresolved str name regex?
        evalInEachContext list requirement gpus
        countMatches int requirement gpus
        int int convertible
        real real convertible
        string str any
        bool bool convertible
        floor int convertible
        ceiling int convertible
        ceil int convertible
        round int convertible
        pow number number number
        quantize number number quantum
        size int sized
        sum number numbers
        avg number numbers
        min number numbers
        max number numbers
        member bool scalar list
        identicalMember bool scalar list
        anyCompare bool comparison numbers number
        allCompare bool comparison list scalar
        split list stringlist separators?
        splitUserName list user
        splitSlotName list user
        join str separators scalar*
        strcat str scalar*
        toUpper str str
        toLower str str
        substr str str small small?
        strcmp int str str
        stricmp int str str
        regexp bool regex str options?
        regexpMember bool regex strings options?
        regexps str regex str substitute options?
        replace str regex str substitute options?
        replaceAll str regex str substitute options?
        versioncmp int version version
        versionLT bool version version
        versionLE bool version version
        versionGT bool version version
        versionGE bool version version
        versionEQ bool version version
        version_in_range bool version version version
        stringListSize int stringlist separators?
        stringListSum number stringlist separators?
        stringListAvg number stringlist separators?
        stringListMin number stringlist separators?
        stringListMax number stringlist separators?
        stringListMember bool item stringlist separators?
        stringListIMember bool item stringlist separators?
        stringListSubsetMatch bool stringlist stringlist separators?
        stringListISubsetMatch bool stringlist stringlist separators?
        stringList_regexpMember bool regex stringlist separators? options?
        stringListsIntersect bool stringlist stringlist separators?
        absTime abstime seconds seconds?
        relTime reltime seconds
        formatTime str moment format?
        interval str int
        splitTime ad time
        getYear int abstime
        getMonth int abstime
        getDayOfMonth int abstime
        getDayOfWeek int abstime
        getDayOfYear int abstime
        getHours int time
        getMinutes int time
        getSeconds int time
        getDays int reltime
        envV1ToV2 str env1
        mergeEnvironment str env2*
        listToArgs str strings syntax?
        argsToList list args syntax?
        userMap str item user str? str?
        noSuchFunction error scalar*
        """.strip().splitlines(),
    )
}
_CALLS: dict[str, list[str]] = {}
for _name, (_result, _) in FUNCTIONS.items():
    _CALLS.setdefault(_result, []).append(_name)
# Without arguments these return the time.
_CLOCKS = {"absTime", "formatTime"}

# A kind that includes several others.
_UNIONS = {
    "number": ["int", "int", "small", "real"],
    "scalar": ["int", "str", "bool", "real", "number", "undefined", "str", "abstime", "reltime"],
    "convertible": ["real", "str", "int", "bool", "abstime", "reltime", "any"],
    "sized": ["str", "list", "ad", "numbers"],
    "quantum": ["number", "numbers", "number"],
    "seconds": ["int", "small", "real", "reltime", "abstime"],
    "moment": ["abstime", "int", "timead", "abstime", "real"],
    "time": ["abstime", "reltime", "reltime", "int"],
    "any": ["int", "str", "bool", "real", "list", "ad", "undefined", "error", "abstime", "reltime"],
}
_TEXTS = {
    *("regex", "options", "substitute", "version", "stringlist", "item", "separators", "env1"),
    *("env2", "args", "format", "comparison", "user", "code"),
}
_LISTS = {"list": "scalar", "numbers": "number", "strings": "str"}
TOP = ["bool", "int", "real", "str", "any", "list", "ad", "abstime", "reltime", "number"]

_FORMS = ["literal", "reference", "call", "call", "operator", "operator", "wrapped"]


class _Writer:
    """Writes texts; each choice takes a byte, and is the first of all choices when no bytes remain."""

    def __init__(self, choices: bytes) -> None:
        self.choices = iter(choices)

    def below(self, limit: int) -> int:
        return next(self.choices, 0) % limit

    def pick(self, choices: Sequence[T]) -> T:
        return choices[self.below(len(choices))]

    def chance(self, one_in: int) -> bool:
        return self.below(one_in) == one_in - 1

    def some(self, choices: Sequence[T], most: int) -> list[T]:
        """Return up to `most` of the choices, none twice."""
        return list(dict.fromkeys(self.pick(choices) for _ in range(self.below(most + 1))))

    # -- one expression of a kind

    def write(self, kind: str, depth: int) -> str:
        if kind == "name":
            return self.reference(self.pick(list(_NAMES)), forms=("{0}", "{0}", "{0}", "N.{0}"))
        if kind in _FIXED:
            return self.fixed(kind, depth)
        if self.chance(25):
            kind = "any"
        kind = self.resolve(kind)
        if kind in _TEXTS and not self.chance(8):
            return self.leaf(kind)
        form = self.pick(_FORMS) if depth > 0 else self.pick(("literal", "literal", "reference"))
        if form == "call":
            return self.call(kind, depth)
        if form == "operator":
            return self.operation(kind, depth)
        if form == "wrapped":
            return self.wrapped(kind, depth)
        return self.literal(kind, depth) if form == "literal" else self.reference(kind)

    def resolve(self, kind: str) -> str:
        while kind in _UNIONS:
            kind = self.pick(_UNIONS[kind])
        return kind

    def leaf(self, kind: str) -> str:
        if kind in _NAMES and self.chance(5):
            return self.reference(kind)
        return self.literal(kind, 0)

    def literal(self, kind: str, depth: int) -> str:
        if kind in _LISTS:
            return self.list_of([_LISTS[kind]], depth)
        if kind == "ad":
            return self.ad(depth)
        if kind == "real" and self.chance(3):
            return repr((self.below(256) - 64) * 10.0 ** (self.below(12) - 6) / (1 + self.below(9)))
        if kind == "str" and self.chance(5):
            return quote("".join(self.pick(_LETTERS) for _ in range(self.below(7))))
        return self.pick(_LITERALS[kind])

    def list_of(self, kinds: list[str], depth: int, max_size: int = 3) -> str:
        size = self.pick([2, 1, 0, 3][: max_size + 1])
        items = [self.write(self.pick(kinds), depth - 1) for _ in range(size)]
        return "{" + ", ".join(items) + "}"

    def ad(self, depth: int) -> str:
        members = {}
        for name in self.some(_MEMBERS, 3):
            if name == "inner":
                members[name] = self.ad(depth - 1) if depth > 0 else "[]"
            elif self.chance(3):
                members[name] = self.pick(["MY.a", "a + 1", "parent.Cpus", "S", "b", "TARGET.Cpus"])
            else:
                members[name] = self.write("scalar", depth - 1)
        return new_form(members)

    def reference(self, kind: str, forms: Sequence[str] = ()) -> str:
        name = self.pick(_NAMES.get(self.resolve(kind), _NAMES["any"]))
        if not forms:
            if self.chance(16):
                return self.pick(["Nope", "TARGET.Nope", "N.a", "O.inner.b", "N.Cpus", "{N, O}.a"])
            forms = (
                *("{0}", "{0}", "{0}", "MY.{0}", "TARGET.{0}", "TARGET.{0}", "{1}", "my.{1}"),
                *("{0}", "{0}", "MY.{0}", "TARGET.{0}"),
                *("'{0}'", ".{0}", "Target.{2}", "self.{0}", "parent.{0}", "toplevel.{0}"),
            )
        return self.pick(forms).format(name, name.lower(), name.upper())

    # -- composed expressions

    def call(self, kind: str, depth: int) -> str:
        names = _CALLS.get(kind, []) * 2 + _CALLS["same"]
        if kind in ("int", "real", "small"):
            names += _CALLS["number"]
        if kind in _TEXTS:
            names += _CALLS["str"]
        if kind in _LISTS:
            names = ["ifThenElse", "debug", *(_CALLS["list"] if kind != "numbers" else ())]
        return self.call_of(self.pick(names), kind, depth)

    def call_of(self, name: str, kind: str, depth: int) -> str:
        kinds: list[str] = []
        for argument in FUNCTIONS[name][1]:
            if argument.endswith("*"):
                kinds += [argument[:-1]] * self.pick([2, 1, 3, 0])
            elif argument.endswith("?"):
                if self.chance(2):
                    break
                kinds.append(argument[:-1])
            else:
                kinds.append(argument)
        if self.chance(30):
            if self.chance(2) and len(kinds) > (name in _CLOCKS):
                kinds.pop()
            else:
                kinds.append("scalar")
        arguments = [self.write(kind if k == "same" else k, depth - 1) for k in kinds]
        spelled = self.pick([name, name, name, name.lower(), name.upper()])
        return f"{spelled}({self.pick([', ', ', ', ',', ' ; '] if arguments else ['']).join(arguments)})"

    def operand(self, kind: str, depth: int) -> str:
        text = self.write(kind, depth - 1)
        return text if text.isalnum() or self.chance(3) else f"({text})"

    def binary(self, operators: Sequence[str], first: str, right: str, depth: int) -> str:
        operator = self.pick(operators)
        space = self.pick([" ", " ", " ", "" if not operator.isalpha() else "\n"])
        return self.operand(first, depth) + space + operator + space + self.operand(right, depth)

    def operation(self, kind: str, depth: int) -> str:
        if kind == "bool":
            match self.pick("cccllnt"):
                case "c":
                    side = self.pick(["number", "str", "number", "bool", "abstime", "reltime", "any"])
                    operators = _words("< <= == != >= > =?= =!= is isnt IS")
                    return self.binary(operators, side, side, depth)
                case "l":
                    return self.binary(["&&", "||"], "bool", "bool", depth)
                case "n":
                    return "!" + self.operand("bool", depth)
        elif kind in ("int", "small"):
            match self.pick("aaabu"):
                case "a":
                    return self.binary("+-*/%", "int", "int", depth)
                case "b":
                    operators = _words("& | ^ << >> >>>")
                    return self.binary(operators, "int", "small", depth)
                case "u":
                    return self.pick("-+~") + self.operand("int", depth)
        elif kind == "real":
            if self.chance(4):
                return self.pick("-+") + self.operand("real", depth)
            return self.binary("+-*/", "real", "number", depth)
        elif kind == "abstime":
            return self.binary("+-", "abstime", "reltime", depth)
        elif kind == "reltime":
            match self.pick("stmu"):
                case "s":
                    return self.binary("+-", "reltime", "reltime", depth)
                case "t":
                    return self.binary("-", "abstime", "abstime", depth)
                case "m":
                    return self.binary("*/", "reltime", "number", depth)
                case "u":
                    return "-" + self.operand("reltime", depth)
        return self.wrapped(kind, depth)

    def wrapped(self, kind: str, depth: int) -> str:
        """Write a value of the kind through an operator or a position that keeps any value unchanged."""
        match self.pick(["parens", "ternary", "elvis", "subscript", "select", "member"]):
            case "parens":
                return f"({self.write(kind, depth - 1)})"
            case "ternary":
                condition = self.operand("bool", depth)
                return f"{condition} ? {self.operand(kind, depth)} : {self.operand(kind, depth)}"
            case "elvis":
                right = self.operand(kind, depth)
                if right[0] in "-+~!":
                    right = f"({right})"  # or it would not parse
                return f"{self.operand(kind, depth)} ?: {right}"
            case "subscript":
                index = self.pick(["0", "1", "0", "J", "2", "-1", "1.0"])
                return self.list_of([kind], depth, 2) + f"[{index}]"
            case "select":
                # No list's member: see above.
                base = self.pick(["N", "O", "MY.N", "TARGET.O", "MY", "TARGET", "5 ", '"a"'])
                member = self.pick([*_MEMBERS, *_NAMES.get(kind, ())])
                return f"{base}.{self.pick(['', '', 'inner.'])}{member}"
        if self.chance(3):
            return f'[a = {self.literal(self.resolve("scalar"), 0)}]["{self.pick("aAb")}"]'
        members = {"a": self.write(kind, depth - 1), "b": self.pick(["a", "c", "Cpus"])}
        return f"{new_form(members)}.{self.pick(['a', 'A', 'b', 'c'])}"

    # -- arguments of countMatches and evalInEachContext

    def fixed(self, kind: str, depth: int) -> str:
        if kind == "plain":
            return self.pick(["8", "16", "0", "2.5"])
        if kind == "gpu":
            memory = self.pick(["8", "16", "MinMem", "MinMem * 2", "undefined"])
            members = {"Capability": self.pick(["7.5", "8", "3.5", "error"]), "Mem": memory}
            return new_form({**members, "Device": self.pick(['"A100"', '"V100"'])})
        if kind == "gpus":
            if self.chance(2):
                return self.reference(kind, forms=("{0}", "MY.{0}", "TARGET.{0}"))
            return self.gpus()
        if self.chance(2):
            return self.pick(["RequireGPUs", "TARGET.RequireGPUs", "Capability", "Mem", "Nope"])
        return self.requirement()

    def gpus(self) -> str:
        items = ["GPU_a", "GPU_b", "TARGET.GPU_a", self.fixed("gpu", 0), "undefined", "1"]
        return "{" + ", ".join(self.some(items, 3)) + "}"

    def requirement(self) -> str:
        parts = ["Capability >= 7.5", 'Device == "A100"', "Mem > MinMem", "Mem > TARGET.MinMem"]
        parts += ["MY.Mem == 8", "Capability", "error", "Nope", "true"]
        parts_chosen = [self.pick(parts), *self.some(parts, 1)]
        return self.pick([" && ", " || "]).join(parts_chosen)

    # -- ads

    def attribute(self, name: str) -> str:
        kind = KIND_OF.get(name.lower(), "any")
        if kind == "ad":  # never a list that a function has made: see above
            return self.pick(
                [
                    *[self.ad(1)] * 6,
                    *("O", "TARGET.N", "MY.O", "self", "parent", "splitTime(T)", "splitTime(D)"),
                    *("{[a = 1], [a = S], 5, undefined}", "{}", "undefined", "error", '"a"'),
                ]
            )
        if kind == "gpus":
            return self.gpus()
        if kind == "requirement":
            return self.requirement()
        return self.write(kind, self.below(2))

    def ad_for(self, texts: Iterable[str], extra: Iterable[str] = ()) -> dict[str, str]:
        """Write an ad that defines most of the names which the texts mention."""
        texts_by_name: dict[str, str] = {}
        new = [word for text in texts for word in _WORD.findall(text)]
        for _ in range(2):
            names = [_SPELLING[n] for n in dict.fromkeys(w.lower() for w in new) if n in KIND_OF]
            new = []
            for name in [*names, *extra]:
                if name not in texts_by_name and not self.chance(8):
                    texts_by_name[name] = self.attribute(name)
                    new += _WORD.findall(texts_by_name[name])
            extra = ()
        return texts_by_name

    # -- complete texts

    def expression(self) -> str:
        """Write an expression of any kind; half of them call some function."""
        depth = self.pick([2, 1, 3])
        if self.chance(2):
            return self.call_of(self.pick(list(FUNCTIONS)), self.pick(TOP), depth)
        return self.write(self.pick(TOP), depth)

    def case(self) -> Case:
        text = self.expression()
        my = self.ad_for([text])
        if self.chance(8):
            return Case(text, new_form(my), None)
        return Case(text, new_form(my), new_form(self.ad_for([text, *my.values()])))

    def pair(self) -> tuple[str, str]:
        requirements = [self.requirements(), self.requirements()]
        ads = [self.ad_for(requirements), self.ad_for(requirements)]
        for ad, text in zip(ads, requirements, strict=True):
            if not self.chance(12):
                ad[self.pick(["Requirements", "requirements"])] = text
        return new_form(ads[0]), new_form(ads[1])

    def requirements(self) -> str:
        match self.pick("tmmbb"):
            case "m":
                return f"TARGET.Cpus {self.pick(['>=', '<', '=!='])} MY.Cpus"
            case "b":
                return self.write("bool", 2)
        return self.pick(_words('true 1 0.5 0 -1 undefined "true" error Ok TARGET.Ok'))

    def damaged(self) -> str:
        """Write an expression with one to three tokens left out, doubled, exchanged or put in."""
        tokens = _TOKEN.findall(self.expression())
        for _ in range(1 + self.below(3)):
            at = self.below(len(tokens) + 1)
            match self.pick("dixsr"):
                case "d":
                    del tokens[at : at + 1]
                case "i":
                    tokens.insert(at, self.pick(_TOKENS))
                case "x":
                    tokens[at : at + 2] = reversed(tokens[at : at + 2])
                case "s":
                    tokens[at:at] = tokens[at : at + 1]
                case "r":
                    tokens[at : at + 1] = [self.pick(_TOKENS)]
        return "".join(tokens)

    def old_text(self) -> str:
        """Write an ad in the old form: a line for each attribute; some lines are odd or wrong."""
        lines = []
        for _ in range(self.below(6)):
            match self.pick("vvvvvvv#be"):
                case "v":
                    name = self.pick([*_SPELLING.values(), "cpus", "Zz_1"])
                    equals = self.pick([" = ", "=", "   =\t", " =", "= "])
                    lines.append(name + equals + self.old_value() + self.pick(["", "", " ", "\r"]))
                case "#":
                    lines.append(self.pick(["# comment", " # comment", "#"]))
                case "b":
                    lines.append(self.pick(_BAD_LINES))
                case "e":
                    lines.append(self.pick(["", " ", "\t"]))
        first, last = self.pick(["", "", "", "\n", " "]), self.pick(["\n", "", "\n\n"])
        return first + "\n".join(lines) + last

    def old_value(self) -> str:
        if self.chance(2):
            text = self.expression().replace("\n", " ")
            # If an ad has several parts, classad2 reads a time into a datetime and forgets its offset.
            if "abstime" not in text.lower():
                return text
        return self.pick(_OLD_VALUES)


# Texts that may not parse ----------------------------------------------------------------------

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'|\w+|\s+|=[?!]=|\?:|&&|\|\||[<>=!]=|>>>?|<<|.', re.S)
_TOKENS = [
    *_words("( ) [ ] { } , ; = . : ? ?: + - * / % & | ^ ~ ! < > && || == != =?= =!= << >> >>>"),
    *_words("a b 1 2.5 \"s\" 'q n' is isnt true undefined error parent MY TARGET 017 0x1F 00 1. 10K"),
    *_words("1e 1e+5 1.5M .5. .. $ @ # \\ \" ' /* */ /*c*/ // é == = 1 - ` TRUE IsNt"),
    *(" ", "\n", "\t", "// c\n", "/* c */", "'ab'", "''", '"\\', '"a"', 'relTime("1:00")'),
    *_call("absTime", map(quote, _BAD_TIMES)),
    *_call("relTime", map(quote, _BAD_TIMES)),
]

_OLD_VALUES = [
    *(r'"C:\new\table"', r'"ends in\"', r'"say \"hi\""', r'"a\\b"', '"it\'s"', '"é"', '"# no"', '""'),
    *("1", "-017", "1.50", "1e400", "99999999999999999999", "true", "undefined", "TARGET.Cpus > 1"),
    *('"two" "parts"', '{1, 2.0, "x"}', "[a = 1; b = a]", 'absTime("2024-02-29T12:34:56Z")', "'q'"),
]
_BAD_LINES = [
    *("Bad = ", "= 1", "NoValue", "Bad = 1 +", "Bad = (", 'Bad = "open', "Bad = 017", "Bad = 1; C = 2"),
    *("Bad = 1 junk", "1abc = 4", "'quoted name' = 5", "My Name = 1", "Bad == 1", "[", "]", "a.b = 1"),
    *("Bad = 1 // c", "Bad = /* c */ 1", "Bad = 2 \\", "é = 1", "// c", "/* c */", "...", "-----"),
]


# Strategies ------------------------------------------------------------------------------------


def _written(write: Callable[[_Writer], T]) -> SearchStrategy[T]:
    return st.binary(min_size=150, max_size=450).map(lambda choices: write(_Writer(choices)))


def cases() -> SearchStrategy[Case]:
    """Draw expressions with a MY that defines most of their names and, mostly, a TARGET."""
    return _written(_Writer.case).filter(has_an_answer)


def pairs() -> SearchStrategy[tuple[str, str]]:
    """Draw two ads with Requirements about one another."""
    return _written(_Writer.pair).filter(has_an_answer)


def texts() -> SearchStrategy[str]:
    """Draw texts for the parser, most of them damaged."""
    return _written(lambda writer: writer.damaged() if writer.below(3) else writer.expression())


def old_texts() -> SearchStrategy[str]:
    return _written(_Writer.old_text)
