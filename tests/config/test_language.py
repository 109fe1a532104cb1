"""The configuration language, rule by rule. Each case ends with the expected value."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from poolbook.domain.config import ConfigError, Configuration, read
from poolbook.domain.config.tables import templates

from ..together import together

FILE = "pool.conf"


class FakeFiles:
    """Files and the output of commands, by name."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = dict(files)
        self.commands_run: list[str] = []

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.files[path]

    def listing(self, path: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(f"{path}/"))

    def run(self, command: str) -> str:
        self.commands_run.append(command)
        return self.read(f"{command}|")

    def write(self, path: str, text: str) -> None:
        self.files[path] = text


def read_configuration(text: str, files: Mapping[str, str] | None = None, **more: object) -> Configuration:
    return read([(FILE, text)], files=FakeFiles(files or {}), **more)  # type: ignore[arg-type]


def value_of_x(text: str) -> str:
    return read_configuration(text, environment={"HOME": "/home/me", "PWD": "/here"}).get("X")


@together(
    ("text", "expected"),
    [
        ("X = 5 * $(MINUTE)", "5 * 60"),
        ("x = small", "small"),
        ("Y = 1\nX = $(y)", "1"),
        ("X = $(NOT_THERE)", ""),
        ("X = $(NOT_THERE:7)", "7"),
        ("EMPTY =\nX = $(EMPTY:7)", "7"),
        ("X = $(NOT_THERE:$(MINUTE))", "60"),
        ("X = $(Y)\nY = later", "later"),
        ("X = a\nX = $(X) b", "a b"),
        ("X = $(X) b", " b"),
        ("START = $(START) && Cpus > 1\nX = $(START)", "True && Cpus > 1"),
        ("X = a\nX += b", "a b"),
        ("X += b", "b"),
        ("X = a\nX +,= b", "a,b"),
        ("X = a\nX +&&= b", "a && b"),
        ("X = a\nX +|= b", "a|b"),
        ("N = Y\nY = found\nX = $($(N))", "found"),
        ("X = $$(Cpus) $$([Cpus + 1])", "$$(Cpus) $$([Cpus + 1])"),
        ("X = $(DOLLAR)(Y)", "$(Y)"),
        ("X = a \\\n    b", "a b"),
        ("X = a \\\n  # a comment\nY = b", "a "),
        ("X = a \\\n  # a comment \\\n    b", "a b"),
        ("# X = 1 \\\nX = 2", "2"),
        ("X @=end\n  one\n # comment\n\n  two \\\n  three\n@end", "one\ntwo three"),
        ("X : old", "old"),
        ("X and more = 1", "1"),
        ("[heading]\nX = 1", "1"),
        ("N$INT(1+1) = 2\nX = $(N2)", "2"),
    ],
)
def test_macros_expand_as_in_htcondor(text: str, expected: str) -> None:
    assert value_of_x(text) == expected


@together(
    ("text", "expected"),
    [
        ("X = $ENV(HOME)", "/home/me"),
        ("X = $ENV(NOT_THERE)", "UNDEFINED"),
        ("X = $ENV(NOT_THERE:other)", "other"),
        ("X = $INT(10 / 4)", "2"),
        ("Y = 3 + 4\nX = $INT(Y)", "7"),
        ("X = $INT(7,%03d)", "007"),
        ("X = $REAL(10 / 4.0)", "2.5"),
        ("X = $REAL(2,%.2f)", "2.00"),
        ('Y = strcat("a", "b")\nX = $STRING(Y)', "ab"),
        ("X = $STRING(plain,%6s|)", " plain|"),
        ("X = $EVAL(2 * 3 > 5)", "true"),
        ("X = $EVAL(no expression)", ""),
        ("X = $CHOICE(1, a, b, c)", "b"),
        ("LIST = a, b, c\nAT = 2\nX = $CHOICE(AT, LIST)", "c"),
        ("Y = abcdef\nX = $SUBSTR(Y, 2)", "cdef"),
        ("Y = abcdef\nX = $SUBSTR(Y, 1, 3)", "bcd"),
        ("Y = abcdef\nX = $SUBSTR(Y, -3, -1)", "de"),
        ("X = $SUBSTR(not_there, 2)", ""),
        ("Y = /a/b/c.tar.gz\nX = $Fn(Y) $Fx(Y) $Fp(Y) $Fd(Y) $Fdb(Y) $Fq(Y)", 'c.tar .gz /a/b/ b/ b "/a/b/c.tar.gz"'),
        ("Y = /a/b/c.tar.gz\nX = $BASENAME(Y) $BASENAME(Y,.tar.gz) $DIRNAME(Y)", "c.tar.gz c /a/b/"),
        ("X = $Fnx(/a/b.c)", "b.c"),
        ("X = $Ff(a.c)", "/here/a.c"),
        ("X = $UNKNOWN(Y)", "$UNKNOWN(Y)"),
    ],
)
def test_function_macros_expand_as_in_htcondor(text: str, expected: str) -> None:
    assert value_of_x(text) == expected


@pytest.mark.parametrize(
    ("text", "allowed"),
    [
        ("$RANDOM_INTEGER(3, 5)", {"3", "4", "5"}),
        ("$RANDOM_INTEGER(0, 9, 4)", {"0", "4", "8"}),
        ("$RANDOM_INTEGER(-2,-2)", {"-2"}),
        ("$RANDOM_CHOICE(a, b)", {"a", "b"}),
        ("$RANDOM_CHOICE(LIST)", {"c", "d", "e"}),
        ("$RANDOM_CHOICE(alone)", {"alone"}),
    ],
)
def test_a_random_value_is_in_range_depends_on_the_seed_and_does_not_change(text: str, allowed: set[str]) -> None:
    drawn = {read_configuration(f"LIST = c d, e\nX = {text}", seed=seed).get("X") for seed in range(40)}
    assert drawn == allowed
    configuration = read_configuration(f"LIST = c d, e\nX = {text}", seed=7)
    assert (
        configuration.get("X")
        == configuration.get("X")
        == read_configuration(f"LIST = c d, e\nX = {text}", seed=7).get("X")
    )


@together(
    ("condition", "is_true"),
    [
        ("true", True),
        ("No", False),
        ("0", False),
        ("0.5", True),
        ("$(MINUTE)", True),
        ("$(NOT_THERE)", False),
        ("! $(NOT_THERE)", True),
        ("defined MINUTE", True),
        ("defined NOT_THERE", False),
        ("defined EMPTY", False),
        ("! defined EMPTY", True),
        ("defined true", True),
        ("defined use POLICY", True),
        ("defined use policy:desktop", True),
        ("defined use POLICY:NoSuch", False),
        ("version >= 8.1.6", True),
        ("version == 25.14.1", True),
        ("version == 25.14", True),
        ("version > 25.14.1", False),
        ("!version < 9.0.0", True),
    ],
)
def test_a_condition_selects_a_branch(condition: str, is_true: bool) -> None:
    text = f"EMPTY =\nX = before\nif {condition}\n X = yes\nelse\n X = no\nendif"
    assert value_of_x(text) == ("yes" if is_true else "no")


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [("1", "1", "a"), ("0", "1", "b"), ("0", "0", "c"), ("1", "nonsense is not evaluated", "a")],
)
def test_the_first_branch_with_a_true_condition_applies(first: str, second: str, expected: str) -> None:
    assert value_of_x(f"if {first}\nX = a\nelif {second}\nX = b\nelse\nX = c\nendif") == expected


def test_an_inner_condition_is_not_evaluated_if_the_outer_one_is_false() -> None:
    assert value_of_x("if false\n if nonsense\n X = a\n endif\nX = b\nendif\nX = $(X)c") == "c"


@together(
    ("text", "files", "expected"),
    [
        ("include : other", {"other": "X = 1"}, "1"),
        ("@include : other", {"other": "X = 1"}, "1"),
        ("D = folder\ninclude : $(D)/other", {"folder/other": "X = 1"}, "1"),
        ("X = 0\ninclude ifexist : other", {}, "0"),
        ("X = a\ninclude : other\nX = $(X)c", {"other": "X = $(X)b"}, "abc"),
        ("include : say hello |", {"say hello|": "X = hello"}, "hello"),
        ("include command : say hello", {"say hello|": "X = hello"}, "hello"),
        ("include ifexist command : say hello", {}, ""),
        ("include command into kept : say hello", {"say hello|": "X = said"}, "said"),
        ("include command into kept : say hello", {"kept": "X = kept"}, "kept"),
        ("LOCAL_CONFIG_FILE = a, b\nX = 0", {"a": "X = $(X)a", "b": "X = $(X)b"}, "0ab"),
        ("LOCAL_CONFIG_FILE = a\nX = 0", {"a": "LOCAL_CONFIG_FILE = a b", "b": "X = $(X)b"}, "0b"),
        ("LOCAL_CONFIG_DIR = d\nX = 0", {"d/2": "X = $(X)2", "d/1": "X = $(X)1", "d/3~": "X = $(X)3"}, "012"),
        ("LOCAL_CONFIG_FILE = lacks\nREQUIRE_LOCAL_CONFIG_FILE = false\nX = 0", {}, "0"),
    ],
)
def test_files_and_commands_are_read_at_the_line_that_names_them(
    text: str, files: dict[str, str], expected: str
) -> None:
    assert read_configuration(text, files).get("X") == expected


def test_the_output_of_a_command_is_stored_for_the_next_read() -> None:
    disk = FakeFiles({"say|": "X = 1"})
    for _ in range(2):
        assert read([(FILE, "include command into kept : say")], files=disk).get("X") == "1"
    assert disk.commands_run == ["say"]
    assert disk.files["kept"] == "X = 1"


@together(
    ("use", "name", "expected"),
    [
        ("POLICY : Limit_Job_Runtimes(60)", "MAX_JOB_RUNTIME", "60"),
        ("POLICY : Limit_Job_Runtimes", "MAX_JOB_RUNTIME", "24*3600"),
        ("policy:limit_job_runtimes( $(HOUR) )", "MAX_JOB_RUNTIME", "3600"),
        ("FEATURE : PartitionableSlot", "SLOT_TYPE_1", "100%"),
        ("FEATURE : PartitionableSlot(2, cpus=1, mem=5%)", "SLOT_TYPE_2", "cpus=1, mem=5%"),
        ("FEATURE : StaticSlots", "NUM_SLOTS_TYPE_1", "4"),
        ("FEATURE : StaticSlots(1, 3)", "NUM_SLOTS_TYPE_1", "3"),
        ("FEATURE : StaticSlots(1, 2, 1/8)", "SLOT_TYPE_1", "1/8"),
        ("POLICY : Hold_If_Memory_Exceeded", "WANT_HOLD_SUBCODE", None),
        ("POLICY : Hold_If_Cpus_Exceeded Preempt_If_Disk_Exceeded", "DISK_EXCEEDED", None),
        ("FEATURE : Monitor(a, WaitForExit, 5, exe, SUM:x, PEAK:y)", "STARTD_CRON_a_MONITOR_METRICS", "SUM:x, PEAK:y"),
        ("FEATURE : Monitor(a, , WaitForExit, 5, exe, x)", "STARTD_CRON_a_MONITOR_MODE", "WaitForExit"),
        ("FEATURE : StartdCronOneShot(tag, (exe, x), arg)", "STARTD_CRON_tag_ARGS", "x)"),
        # As in HTCondor, the arguments of a template also apply to the next template in the line.
        ("FEATURE : PartitionableSlot(3) GPUs", "MACHINE_RESOURCE_INVENTORY_GPUs", None),
        ("ROLE : Personal", "DAEMON_LIST", None),
    ],
)
def test_templates_take_arguments(use: str, name: str, expected: str | None) -> None:
    configuration = read_configuration(f"use {use}", detected={"DETECTED_CPUS": "4"})
    assert name in configuration.names()
    assert configuration.source(name).kind == "template"
    assert expected is None or configuration.get(name) == expected


def test_auto_use_settings_apply_a_template() -> None:
    assert read_configuration("", subsystem="SCHEDD").get("JOB_TRANSFORM_NAMES").strip() == "PelicanRetry"
    assert read_configuration("AUTO_USE_FEATURE_PelicanRetryPolicy = false", subsystem="SCHEDD").names() == [
        "AUTO_USE_FEATURE_PelicanRetryPolicy"
    ]
    configuration = read_configuration("AUTO_USE_POLICY_Limit_Job_Runtimes = true")
    assert configuration.get("MAX_JOB_RUNTIME") == "24*3600"
    assert str(configuration.source("MAX_JOB_RUNTIME")) == (
        "AUTO_USE_POLICY_Limit_Job_Runtimes, line 0, use POLICY:LIMIT_JOB_RUNTIMES+0"
    )


PREFIXES = """
X = plain
STARTD.X = startd
here.X = local
Y = y
STARTD.Y = $(Y) and more
"""


@pytest.mark.parametrize(
    ("subsystem", "local_name", "expected"),
    [("SCHEDD", "", "plain"), ("STARTD", "", "startd"), ("STARTD", "here", "local"), ("STARTD", "there", "startd")],
)
def test_a_setting_with_a_daemon_s_or_local_name_s_prefix_takes_precedence(
    subsystem: str, local_name: str, expected: str
) -> None:
    configuration = read_configuration(PREFIXES, subsystem=subsystem, local_name=local_name)
    assert configuration.get("X") == expected
    assert configuration.get("Y") == ("y and more" if subsystem == "STARTD" else "y")


SLOTS = """
START = Cpus > 1
SLOT_TYPE_1_START = $(START) && Type
SLOT1_START = Slot
SLOT2_START = Second
SLOT_TYPE_2_KILL = true
SLOT1_Color = "slot's"
SLOT_TYPE_1_Color = "type's"
SLOT_TYPE_3_START =
STARTD.SLOT_TYPE_4_START = Mine
"""


@together(
    ("slot", "type", "start", "kill"),
    [
        (1, 1, "Cpus > 1 && Type", "False"),
        (1, 2, "Slot", "true"),
        (2, 1, "Cpus > 1 && Type", "False"),
        (2, 2, "Second", "true"),
        (3, 3, "", "False"),
        (4, 4, "Mine", "False"),
        (11, 5, "Cpus > 1", "False"),
    ],
)
def test_a_slot_type_s_policy_overrides_the_slot_s_and_that_overrides_the_general_one(
    slot: int, type: int, start: str, kill: str
) -> None:
    view = read_configuration(SLOTS).for_slot(slot, type)
    assert (view.get("START"), view.get("KILL")) == (start, kill)


@pytest.mark.parametrize(("slot", "color"), [(1, '"slot\'s"'), (2, '"type\'s"')])
def test_a_slot_s_attribute_overrides_its_slot_type_s(slot: int, color: str) -> None:
    assert read_configuration(SLOTS).for_slot(slot, 1).get("Color") == color


def test_the_environment_overrides_files_and_detected_values_override_both() -> None:
    configuration = read_configuration(
        "X = file\nHOSTNAME = file\nDETECTED_MEMORY = 5",
        environment={"_CONDOR_X": " environment", "_condor_y": "$(X)", "_CONDOR_HOSTNAME": "environment"},
        detected={"HOSTNAME": "machine", "DETECTED_MEMORY": "16"},
    )
    assert (configuration.get("X"), configuration.get("Y")) == ("environment", "environment")
    assert (configuration.get("HOSTNAME"), configuration.get("DETECTED_MEMORY")) == ("machine", "5")
    assert [str(configuration.source(name)) for name in ("X", "HOSTNAME")] == ["<Environment>", "<Detected>"]


@together(
    ("text", "environment", "cores"),
    [
        ("", {}, 16),
        ("COUNT_HYPERTHREAD_CPUS = false", {}, 8),
        ("", {"OMP_THREAD_LIMIT": "12"}, 12),
        ("", {"OMP_THREAD_LIMIT": "12", "SLURM_CPUS_ON_NODE": "4"}, 4),
        ("COUNT_HYPERTHREAD_CPUS = false", {"OMP_THREAD_LIMIT": "12"}, 8),
        ("COUNT_HYPERTHREAD_CPUS = false", {"OMP_THREAD_LIMIT": "3"}, 3),
        ("NUM_CPUS = 20", {"OMP_THREAD_LIMIT": "3"}, 20),
        ("", {"OMP_THREAD_LIMIT": "many", "SLURM_CPUS_ON_NODE": "32"}, 16),
        ("DETECTED_CPUS = 99", {}, 16),
    ],
)
def test_the_number_of_cores_follows_the_settings_and_limits(
    text: str, environment: dict[str, str], cores: int
) -> None:
    detected = {"DETECTED_CPUS": "16", "DETECTED_PHYSICAL_CPUS": "8"}
    configuration = read_configuration(text, environment=environment, detected=detected)
    assert configuration.integer("NUM_CPUS", 0) == cores


def test_later_files_override_earlier_ones() -> None:
    configuration = read([("a", "X = 1\nY = 1"), ("b", "X = $(X)2")])
    assert (configuration.get("X"), configuration.get("Y")) == ("12", "1")
    assert [str(configuration.source(name)) for name in "XY"] == ["b, line 1", "a, line 2"]


def test_a_value_equal_to_the_default_counts_as_default() -> None:
    configuration = read_configuration("KILL = False\nSTART = true\nSUSPEND = x\nSUSPEND = False\nALL_DEBUG =")
    sources = {name: str(configuration.source(name)) for name in ("KILL", "START", "SUSPEND", "ALL_DEBUG", "PREEMPT")}
    assert sources == {
        "KILL": "<Default>",
        "START": "<Default>",
        "SUSPEND": "pool.conf, line 4",
        "ALL_DEBUG": "pool.conf, line 5",
        "PREEMPT": "<Default>",
    }
    assert configuration.names() == ["SUSPEND", "ALL_DEBUG"]


@together(
    ("text", "expected"),
    [
        ("10 * $(MINUTE)", 600),
        (" 7 ", 7),
        ("-3", -3),
        ("7.9", 7),
        ("true", 1),
        ("5 > 3 ? 8 : 9", 8),
        ("$INT(2.5)", 2),
        ("", 11),
    ],
)
def test_a_setting_is_evaluated_as_an_integer(text: str, expected: int) -> None:
    configuration = read_configuration(f"X = {text}")
    assert configuration.integer("X", 11) == configuration.seconds("X", 11) == expected


def test_an_empty_number_has_htcondor_s_default() -> None:
    configuration = read_configuration("use POLICY : Desktop")
    assert (configuration.get("CLAIM_WORKLIFE"), configuration.integer("CLAIM_WORKLIFE", -1)) == ("", 1200)


@pytest.mark.parametrize(
    ("text", "number", "truth"),
    [("1", 1.0, True), ("0", 0.0, False), ("TRUE", 1.0, True), ("1.5 * 2", 3.0, True), ("1 > 2", 0.0, False)],
)
def test_a_setting_is_evaluated_as_a_float_or_a_boolean(text: str, number: float, truth: bool) -> None:
    configuration = read_configuration(f"X = {text}")
    assert (configuration.number("X", 9.0), configuration.boolean("X", not truth)) == (number, truth)


def test_a_setting_is_parsed_as_an_expression_once() -> None:
    configuration = read_configuration('SUSPEND = KeyboardIdle < $(MINUTE) && Name != "a\\b"\nKILL =')
    expression = configuration.expression("SUSPEND")
    assert str(expression) == 'KeyboardIdle < 60 && Name != "a\\\\b"'
    assert configuration.expression("suspend") is expression
    assert configuration.expression("KILL") is None
    assert configuration.expression("NOT_THERE") is None


@together(
    ("text", "line", "message"),
    [
        ("X = 1\nfoo\n", 2, "'foo' is not a setting; write NAME = value"),
        ("A-B = 1", 1, "'A-B' is not a valid name"),
        ("X @=end\n a\n", 1, "must end with '@end'"),
        ("if 1\nX = 1\n", 1, "this if has no endif"),
        ("\nendif", 2, "endif without an if"),
        ("if 1 == 1\nendif", 1, "'1 == 1' is not a condition"),
        ("if 1\nelse\nelse\nendif", 3, "else after else"),
        ("use POLICY : Destkop", 1, "use POLICY : Destkop: unknown template; did you mean DESKTOP"),
        ("use POLICE : Desktop", 1, "unknown template category; use EXPERIMENTAL, FEATURE, POLICY"),
        ("use : Desktop", 1, "write a category before the colon"),
        ("use FEATURE : Monitor(a, b)", 1, "error : use feature : monitor requires five or more arguments"),
        ("use FEATURE : GPUs(a", 1, "close the bracket after GPUs"),
        (
            "include : nowhere",
            1,
            "include : nowhere: No such file or directory; use 'include ifexist' to ignore this error",
        ),
        ("include maybe : x", 1, "unknown option 'maybe'"),
        ("include : a | b", 1, "write a single |, at the end of the command"),
        ("include : pool.conf", 1, "files include each other more than 20 levels deep"),
        ("error : no $(MINUTE)", 1, "error : no 60"),
        ("\nA = $(B)\nB = $(C)\nC = $(A)", 2, "circular macros: $(a) -> $(b) -> $(c) -> $(a)"),
        ("A = $(B:$(A))", 1, "circular macros"),
        ("A = 1 + $INT(B)\nB = $REAL(A)", 1, "circular macros: $(a) -> $(b) -> $(a)"),
        ("A = $F(A)$BASENAME(A)\nA = $SUBSTR(A, 1)", 2, "circular macros: $(a) -> $(a)"),
        ("START = Cpus >\n", 1, "START: Cpus > is not an expression"),
        ("\nSLOT_TYPE_1_PREEMPT = (", 2, "SLOT_TYPE_1_PREEMPT: ( is not an expression"),
        ("PREEMPT_VANILLA = (", 1, "PREEMPT_VANILLA: ( is not an expression"),
        ("CpuBusy = LoadAvg >", 1, "CpuBusy: LoadAvg > is not an expression"),
        ("DEFAULT_DRAINING_START_EXPR = a ==", 1, "DEFAULT_DRAINING_START_EXPR: a == is not an expression"),
        ("MODIFY_REQUEST_EXPR_REQUESTCPUS = 5 +", 1, "MODIFY_REQUEST_EXPR_REQUESTCPUS: 5 + is not an expression"),
        ("SLOT_TYPE_1_CONSUMPTION_GPUS = *", 1, "SLOT_TYPE_1_CONSUMPTION_GPUS: * is not an expression"),
        ("X = \0", 1, "NUL"),
    ],
)
def test_an_error_is_reported_with_file_and_line(text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as error_info:
        read_configuration(text, {"pool.conf": "include : pool.conf"})
    assert (error_info.value.file, error_info.value.line) == (FILE, line)
    assert message in str(error_info.value)
    assert str(error_info.value).startswith(f"{FILE}:{line}: ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("X = $INT(word)", "X: $INT(word): the first argument must be an integer"),
        ("X = $CHOICE(3, a, b)", "index 3 is out of range; the list has 2 items"),
        ("X = $RANDOM_INTEGER(5, 3)", "least <= most"),
        ("X = $RANDOM_CHOICE()", "there is nothing to choose from"),
        ("X = seven", "X: seven is not an integer"),
    ],
)
def test_an_invalid_value_is_rejected_when_it_is_read(text: str, message: str) -> None:
    configuration = read_configuration(f"Y = fine\n{text}")
    assert configuration.get("Y") == "fine"
    with pytest.raises(ConfigError) as error_info:
        configuration.integer("X", 0)
    assert (error_info.value.file, error_info.value.line) == (FILE, 2)
    assert message in str(error_info.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KILLING_TIMEOUT = -1", "KILLING_TIMEOUT: -1 is out of range; it must be at least 0"),
        ("SLOT1_KILLING_TIMEOUT = -2", "SLOT1_KILLING_TIMEOUT: -2 is out of range"),
    ],
)
def test_a_number_out_of_range_is_rejected(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_configuration(text).for_slot(1, 1).integer("KILLING_TIMEOUT", 30)


@together(
    ("text", "warning"),
    [
        ("SUSPNED = true", "pool.conf:1: SUSPNED: no such setting; did you mean SUSPEND?"),
        ("WANT_SUSPND = true", "pool.conf:1: WANT_SUSPND: no such setting; did you mean WANT_SUSPEND?"),
        ("SLOT_TYPE_1_STRAT = true", "pool.conf:1: SLOT_TYPE_1_STRAT: no such setting; did you mean START?"),
        ("MAXJOBRETIREMENTIME = 5", "did you mean MaxJobRetirementTime?"),
        ("KIL = true", "did you mean KILL?"),
        ("KI = true\nBIL = true", ""),
        ("NUM_SLOT_TYPE_1 = 5", "did you mean NUM_SLOTS_TYPE_N?"),
        ("X : 1", "pool.conf:1: obsolete use of ':' at X : 1; write X = 1"),
        ("warning : $(MINUTE) seconds", "pool.conf:1: 60 seconds"),
        ("SUSPND = true\nSTARTD_ATTRS = SUSPND", ""),  # a custom attribute
        ("STRAT = Cpus > 1\nSTART = $(STRAT)", ""),  # a custom macro
        ("SUSPEND_VANILLA = true\nSLOT_TYPE_2_PARTITIONABLE = true\nMY_OWN_THING = 1", ""),
        ("use POLICY : Desktop", ""),
    ],
)
def test_a_name_that_is_probably_misspelled_causes_a_warning(text: str, warning: str) -> None:
    warnings = read_configuration(text).warnings
    assert (warning in warnings[0]) if warning else warnings == []


def test_a_changed_setting_also_changes_the_settings_that_refer_to_it() -> None:
    before, after = (
        read_configuration("A = 1\nB = $(A)\nC = 1"),
        read_configuration("A = 2\nB = $(A)\nC = 1\nMINUTE = 61"),
    )
    assert before.changed_names(before) == []
    changed = before.changed_names(after)
    assert {"A", "B", "MINUTE", "MaxVacateTime", "MachineMaxVacateTime"} <= set(changed)
    assert not {"C", "HOUR"} & set(changed)
    assert after.changed_names(before) == changed


# Expressions that are an error for every job

PREFIX = "pool.conf:1: {} is an error for every job:"


@together(
    ("text", "warning"),
    [
        (
            'START = true\nRANK = (Owner == "coltrane" * 10^12) + Imagesize',
            'pool.conf:2: RANK is an error for every job: "coltrane" * 10 is an error (a string * a number). * '
            "binds tighter than ==: put the comparison in parentheses. ^ is exclusive or, not a power: write "
            "pow(10, 12) or 1e12",
        ),
        (
            'SLOT_TYPE_1_START = TARGET.Owner == "x" > 3',
            'pool.conf:1: SLOT_TYPE_1_START is an error for every job: "x" > 3 is an error (a string > a number). join '
            "two comparisons with &&",
        ),
        (
            "X = 0\nPREEMPT = 1 / $(X)",
            "pool.conf:2: PREEMPT is an error for every job: 1 / 0 is an error (a number / 0)",
        ),
        ('SUSPEND = !"abc"', 'pool.conf:1: SUSPEND is an error for every job: !"abc" is an error (! a string)'),
        (
            'SYSTEM_PERIODIC_HOLD = regexp("a")',
            f'{PREFIX.format("SYSTEM_PERIODIC_HOLD")} regexp takes 2 to 3 arguments, but regexp("a") has 1',
        ),
        (
            "SYSTEM_PERIODIC_HOLD_NAMES = A\nSYSTEM_PERIODIC_HOLD_A = pow(1)",
            "pool.conf:2: SYSTEM_PERIODIC_HOLD_A is an error for every job: pow takes 2 arguments, but pow(1) has 1",
        ),
        (
            "START = quantize(5)",
            f"{PREFIX.format('START')} quantize takes 2 arguments, but quantize(5) has 1",
        ),
        (
            "SUBMIT_REQUIREMENT_NAMES = A\nSUBMIT_REQUIREMENT_A = isDefined(X)",
            "pool.conf:2: SUBMIT_REQUIREMENT_A is an error for every job: there is no function isDefined; write X isnt "
            "undefined",
        ),
        (
            "WANT_HOLD = isDefined(MemoryUsage) && MemoryUsage > 3",
            f"{PREFIX.format('WANT_HOLD')} there is no function isDefined; write MemoryUsage isnt undefined",
        ),
        (
            "RANK = stringlistmembr(Owner, Users)",
            f"{PREFIX.format('RANK')} there is no function stringlistmembr; did you mean stringlistmember?",
        ),
        ("PREEMPTION_RANK = error", "pool.conf:1: PREEMPTION_RANK is an error for every job: error is an error"),
        ('RANK = (Owner == "coltrane") * pow(10, 12) + ImageSize', None),
        ("MYMACRO = 1 / 0\nSTART = true", None),
    ],
)
def test_a_policy_expression_that_is_an_error_for_every_job_causes_a_warning_with_a_fix(
    text: str, warning: str | None
) -> None:
    assert read_configuration(text).warnings == ([] if warning is None else [warning])


def test_no_template_is_an_error_for_every_job() -> None:
    for category, name in templates():
        try:
            warnings = read_configuration(f"use {category} : {name}").warnings
        except ConfigError:
            continue  # it requires arguments
        assert not any("an error for every job" in warning for warning in warnings)
