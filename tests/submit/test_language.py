"""golden: the meaning of a submit description, line by line; the tables end with the expected result."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from poolbook.domain.submit import SubmitError, from_mapping, parse_submit, submission

from ..together import together
from .fakes import FakeFiles, facts, submit, values

ITEMS = {"items.txt": "1 a\n\n2 b c\n", "x.dat": "", "y.dat": "", "sub.dat/": "", "more.sub": "priority = 7\n"}


@together(
    ("lines", "attribute", "text"),
    [
        ("# arguments = 1", "Arguments", '""'),
        ("ARGUMENTS = 1", "Args", '"1"'),
        ("arguments = a \\\n   b", "Args", '"a b"'),
        ("arguments = a \\\n  # not this \\\n  b", "Args", '"a b"'),
        ("a = 1\narguments = $(A)$(b:2)$(c)", "Args", '"12"'),
        ("a = 1\na = $(a)2\narguments = $(a)", "Args", '"12"'),
        ("arguments = $(a)\na = later", "Args", '"later"'),
        ("arguments = $(DOLLAR)(a) $$(Memory)", "Args", '"$(a) $$(Memory)"'),
        ("arguments = $(Cluster).$(Process) $(JobId)", "Args", '"1.0 1.0"'),
        ("arguments = $(Year)-$(Month)-$(Day)", "Args", '"2026-11-20"'),
        ("arguments = $ENV(HOME) $ENV(NONE) $ENV(NONE:x)", "Args", '"/home/alice UNDEFINED x"'),
        ("n = 6 * 7\narguments = $INT(n) $INT(n,%04d) $REAL(n,%.1f)", "Args", '"42 0042 42.0"'),
        ("l = a, b\narguments = $CHOICE(1,l) $CHOICE(0,c,d)", "Args", '"b c"'),
        ("w = abcdef\narguments = $SUBSTR(w,2) $SUBSTR(w,-2,1)", "Args", '"cdef e"'),
        (
            "f = data/in.txt\narguments = $Fn(f) $Fx(f) $Fp(f) $Ff(f)",
            "Args",
            f'"in .txt data/ {facts().iwd}/data/in.txt"',
        ),
        ('arguments = "one \'two words\' ""q"""', "Arguments", '"one two\' \'words \\"q\\""'),
        ('arguments = say \\"hello\\"', "Args", '"say \\"hello\\""'),
        ("environment = \"A=1 B='x y'\"", "Environment", "\"A=1 B=x' 'y\""),
        ("environment = B=1;A=x y", "Environment", "\"A=x' 'y B=1\""),
        ("env = B=1;A=x y", "Env", '"A=x y;B=1"'),
        ("getenv = true", "Environment", '"HOME=/home/alice SHELL=/bin/sh"'),
        ("getenv = H*\nenvironment = HOME=/else", "Environment", '"HOME=/else"'),
        ("initialdir = run\nlog = job.log", "UserLog", '"/home/alice/cap/run/job.log"'),
        ("request_memory = 1.5 GB", "RequestMemory", "1536"),
        ("request_memory = 1000K", "RequestMemory", "1"),
        ("request_disk = 2M", "RequestDisk", "2048"),
        ("request_memory = 2 * MY.Base", "RequestMemory", "2 * MY.Base"),
        ("request_memory = undefined", "RequestMemory", None),
        ('+Note = "back\\slash"', "Note", '"back\\\\slash"'),
        ("+JobPrio = 3\npriority = 2", "JobPrio", "3"),
        ("+requestmemory = 5", "RequestMemory", "5"),
        ("hold = true", "JobStatus", "5"),
        ("kill_sig = 15", "KillSig", '"SIGTERM"'),
        ("universe = local", "KillSig", '"SIGTERM"'),
        ("accounting_group = g\naccounting_group_user = u", "AccountingGroup", '"g.u"'),
        ("nice_user = true", "AccountingGroup", '"nice-user.alice"'),
        ("concurrency_limits = B:2, a", "ConcurrencyLimits", '"a,b:2"'),
        ("if true\n priority = 1\nelse\n priority = 2\nendif", "JobPrio", "1"),
        ("if defined x\n priority = 1\nelif version >= 24.0\n priority = 2\nendif", "JobPrio", "2"),
        ("if $(none)\n priority = 1\nelse\n priority = 2\nendif", "JobPrio", "2"),
        ("if false\n if nonsense here\n endif\n stray words\nendif\npriority = 4", "JobPrio", "4"),
        ("include : more.sub", "JobPrio", "7"),
        ("include ifexist : none.sub", "JobPrio", "0"),
        ("arguments @=end\na\nb\n@end", "Args", '"a b"'),
        ('jobset = "q"', "JobSetName", '"q"'),
        ("jobset = a\njobset.name = b", "JobSetName", '"a"'),
        ('JOBSET.Name = "b c"\nJOBSET.Count = 3', "JobSetName", '"b c"'),
        ('JOBSET.Color = "red"', "JobSetName", '"1"'),
        ("arguments = a\narguments += b", "Args", '"a b"'),
    ],
)
def test_a_line_sets_an_attribute(lines: str, attribute: str, text: str | None) -> None:
    assert submit(f"{lines}\nqueue", ITEMS).ad.get(attribute) == text


@together(
    ("statement", "shown", "arguments"),
    [
        ("queue", "$(Process)", ["0"]),
        ("queue 3", "$(Process)", ["0", "1", "2"]),
        ("queue 1 + 1", "$(Process)", ["0", "1"]),
        ("queue 0", "$(Process)", ["0"]),
        ("iterate x in (1 2)", "$(x)", ["1", "2"]),
        ("queue in (p q)", "$(Item)", ["p", "q"]),
        ("queue x in p, q r", "$(x)", ["p", "q", "r"]),
        ("queue 2 x in (p q)", "$(x)$(Step)$(ItemIndex)$(Process)", ["p000", "p101", "q012", "q113"]),
        ("queue x in [1:] (p q r)", "$(x)$(ItemIndex)$(Row)", ["q11", "r22"]),
        ("queue x in [::2] p q r", "$(x)", ["p", "r"]),
        ("queue x in [-1:] p q r", "$(x)", ["r"]),
        ("queue x in (p\n q\n# no\n r,s\n)", "$(x)", ["p", "q", "r", "s"]),
        ("queue x, y from items.txt", "$(x)|$(y)", ["1|a", "2|b c"]),
        ("queue x,y from [:1] items.txt", "$(x)|$(y)", ["1|a"]),
        ("queue x from (\n 1 a\n 2 b\n)", "$(x)", ["1 a", "2 b"]),
        ("queue x,y,z from (\n 1, 2\n a b c d\n)", "$(x)|$(y)|$(z)", ["1|2|", "a|b|c d"]),
        ("queue x_1 from (\n 1\n)", "$(x_1)", ["1"]),
        ("queue f matching *.dat", "$(f)", ["sub.dat/", "x.dat", "y.dat"]),
        ("queue f matching files *.dat x.*", "$(f)", ["x.dat", "y.dat"]),
        ("queue f matching dirs [0:1] *", "$(f)", ["sub.dat/"]),
        ("queue 1\nqueue 2", "$(Process)", ["0", "1", "2"]),
    ],
)
def test_a_queue_statement_creates_jobs(statement: str, shown: str, arguments: list[str]) -> None:
    submission = submit(f"arguments = {shown}\n{statement}", ITEMS)
    assert values(submission, "Args") == [f'"{argument}"' for argument in arguments]


def test_each_queue_statement_uses_the_lines_before_it() -> None:
    submission = submit("arguments = 1\nqueue\narguments = 2\npriority = 3\nqueue 2")
    assert values(submission, "Args") == ['"1"', '"2"', '"2"']
    assert values(submission, "JobPrio") == ["0", "3", "3"]
    assert "multiple queue statements" in submission.warnings[0]


def test_an_item_variable_may_be_a_command_and_items_may_contain_macros() -> None:
    submission = submit("base = 10\nqueue arguments, priority from (\n$(base)$(Process) 1\nx 2\n)")
    assert values(submission, "Args") == ['"100"', '"x"']
    assert values(submission, "JobPrio") == ["1", "2"]


def test_requirements_differ_with_the_request() -> None:
    submission = submit("request_cpus = $(n)\nqueue n in (1 2)")
    has_clause = ["TARGET.Cpus >= RequestCpus" in str(text) for text in values(submission, "Requirements")]
    assert has_clause == [False, True]


def test_defaults_and_functions_are_evaluated_for_each_item() -> None:
    submission = submit("arguments = $(x:none) $INT(y,%02d)\nqueue x,y from (\na,1\n,2\n)")
    assert values(submission, "Args") == ['"a 01"', '"none 02"']


def test_macros_lines_and_the_queue_may_come_from_the_command_line() -> None:
    submission = submit("arguments = $(x) $(y)", macros={"x": "1", "+Foo": "2"}, append=["y = 3"], queue="2")
    assert (values(submission, "Args"), submission.ad["Foo"]) == (['"1 3"', '"1 3"'], "2")


def test_a_mapping_of_commands_is_a_description() -> None:
    commands = {"executable": "/bin/sleep", "arguments": "$(n)", "+Foo": 1.5, "hold": True}
    submission = from_mapping(commands, facts(), FakeFiles(), count=2, items=[{"n": 3}, {"n": 4}])
    assert values(submission, "Args") == ['"3"', '"3"', '"4"', '"4"']
    assert (submission.ad["Foo"], submission.ad["JobStatus"]) == ("1.5", "5")
    text = "executable = /bin/sleep\narguments = $(n)\n+Foo = 1.5\nhold = true\nqueue 2 n in (3 4)"
    assert submission == parse_submit(text, facts(), FakeFiles())


@together(
    ("lines", "line", "message"),
    [
        ("request_memory = lots of it\nqueue", 2, "request_memory = lots of it: this must be an expression"),
        ("\npriority = high\nqueue", 3, "priority = high: this must eval to an integer"),
        ("hold = maybe\nqueue", 2, "must eval to a boolean: true, false, or an expression"),
        ("kill_sig = SIGFOO\nqueue", 2, "for example SIGTERM or 15"),
        ("requirements = Memory >\nqueue", 2, "requirements = Memory >"),
        ("requirements = Requirements\nqueue", 2, "$(Requirements)"),
        ("+Foo = a b\nqueue", 2, "MY.Foo = a b"),
        ("+1 = 2\nqueue", 2, "is not a valid attribute name"),
        ('arguments = "a\nqueue', 2, "the double quotes do not match"),
        ('arguments = "\'a"\nqueue', 2, "the single quote"),
        ('arguments = a"\nqueue', 2, "unescaped double quote"),
        ("environment = A\nqueue", 2, "NAME=value"),
        ("universe = vm\nqueue", 2, "only the universes vanilla, container, docker, local and scheduler"),
        ("universe = $(u)\nqueue u in (vanilla local)", None, "the same universe"),
        ("encrypt_execute_directory = true\nqueue", 2, "no machine encrypts scratch directories"),
        ("should_transfer_files = automatic\nqueue", 2, "this must be YES, NO or IF_NEEDED"),
        ("when_to_transfer_output = later\nqueue", 2, "this must be ON_EXIT, ON_EXIT_OR_EVICT or ON_SUCCESS"),
        ("queue many", 2, "the count is invalid"),
        ("queue -1", 2, "the count is invalid"),
        ("queue x in ()", None, '"" has only empty "queue" commands -- no jobs queued'),
        ("queue x in (a", 2, "no closing bracket"),
        ("queue x from none.txt", 2, "'queue from none.txt' cannot be read"),
        ("queue x from none |", 2, "'queue from none |' cannot be read"),
        ("queue x from -", 2, "'queue from -' cannot be read"),
        ("queue x in [::-1] (a b)", 2, "step must be positive"),
        ("queue x in [a] (a b)", 2, "[start:end:step]"),
        ("if a\nqueue", 2, "'a' is not a condition"),
        ("if true\nqueue", 2, "this if has no endif"),
        ("endif\nqueue", 2, "endif without an if"),
        ("if true\nelse\nelse\nendif", 4, "else after else"),
        ("include : none.sub\nqueue", 2, "include : none.sub: No such file"),
        ("include : none |\nqueue", 2, "include : none |: No such file"),
        ("include : a | b\nqueue", 2, "write a single |, at the end of the command"),
        ("include sometimes : a\nqueue", 2, "unknown option 'sometimes'"),
        ("use strict : lax\nqueue", 2, "unknown template; there are strict : false, true, harsh"),
        ("queue x from table none.csv", 2, "cannot be read"),
        ("queue x from table(rows=2) items.txt", 2, "'rows=2' is not a valid table option"),
        ("queue x from table(header=2 items.txt", 2, "is not closed"),
        ("queue x in table items.txt", 2, "it belongs after 'from'"),
        ("submit_fail_empty_matches = true\nqueue f matching *.none", 3, "no matches for pattern(s): *.none"),
        ("submit_match_directories = x\nqueue f matching *", 3, "this must be yes, never or only"),
        ("include : self.sub\nqueue", 1, "deep"),
        ("include : bad.sub\nqueue", 2, "in bad.sub, priority = x"),
        ("use feature : x\nqueue", 2, "unknown template"),
        ("error : no way\nqueue", 2, "no way"),
        ("stray words\nqueue", 2, "'stray words' is not a command"),
        ("a b = c\nqueue", 2, "'a b = c' is not a command"),
        ("a-b = c\nqueue", 2, "is not a valid name"),
        ("a = $(b)\nb = $(a)\narguments = $(a)\nqueue", 4, "$(a) -> $(b) -> $(a)"),
        ("arguments = $INT(x)\nqueue", 2, "must be an integer"),
        ("arguments = $RANDOM_INTEGER(9,1)\nqueue", 2, "least <= most"),
        ("arguments = $CHOICE(7,a,b)\nqueue", 2, "index 7 is out of range"),
        ("arguments @=x\nqueue", 2, "must end with '@x'"),
        ("should_transfer_files = NO\ntransfer_input_files = a\nqueue", 3, "transfer_input_files = a"),
        ("output = a\0b\nqueue", 2, "NUL"),
        ("jobset.x = a b\nqueue", 2, "jobset.x = a b: this must be an expression"),
        ("jobset = $(s)\nqueue s in (a b)", None, "must be in the same JOBSET"),
        ("request_memroy = 1GB\nqueue", 2, "Unknown command request_memroy. Did you mean request_memory?"),
        ("request_cogs = 1GB\nqueue", 2, "this must be an expression"),
    ],
)
def test_an_error_is_reported_with_its_line(lines: str, line: int | None, message: str) -> None:
    files = {"self.sub": "include : self.sub\n", "bad.sub": "\npriority = x\n"}
    with pytest.raises(SubmitError) as caught:
        submit(lines, files)
    assert (caught.value.line, message in str(caught.value)) == (line, True), str(caught.value)


def test_a_description_without_executable_is_rejected() -> None:
    with pytest.raises(SubmitError, match="No 'executable' parameter"):
        parse_submit("queue", facts(), FakeFiles())


@together(
    ("lines", "warnings", "name", "job_set"),
    [
        ('JOBSET.Color = "red"\njobset.Size = 3*4', 0, '"1"', {"Color": '"red"', "Size": "3 * 4"}),
        ("JOBSET.Name = a\nJOBSET.Empty =", 0, '"a"', {}),
        ('JOBSET.JobSetName = "b"', 0, '"b"', {"JobSetName": '"b"'}),
        ("JOBSET.First = $(Process)", 0, '"1"', {"First": "0"}),
        ("JOBSET.First = $(Process)\nqueue\nJOBSET.First = 7\nJOBSET.Later = 8", 1, '"1"', {"First": "0"}),
    ],
)
def test_the_first_job_defines_the_attributes_of_the_job_set(
    lines: str, warnings: int, name: str, job_set: dict[str, str]
) -> None:
    used = facts(settings={"USE_JOBSETS": "true"})
    submission = parse_submit(f"executable = /bin/sleep\n{lines}\nqueue 2", used, FakeFiles())
    assert (len(submission.warnings), submission.ad["JobSetName"], submission.job_set) == (warnings, name, job_set)
    assert not any(attribute.lower().startswith("jobset.") for attribute in submission.ad_of(1))


@together(
    ("lines", "warning"),
    [
        (
            "reqest_memory = 1",
            "'reqest_memory = 1' was unused by condor_submit, line 2. Is it a typo? Did you mean request_memory",
        ),
        ("bogus = 1", "the line 'bogus = 1' was unused by condor_submit, line 2. Is it a typo?"),
        ("request_cpu = 1", "did you mean request_cpus?"),
        ("request_memroy = 1024", "requests a custom resource, memroy. Did you mean request_memory?"),
        ("requirements = Memory > 5", "refers to TARGET.Memory"),
        ("notify_user = never", "notification = never"),
        ("job_lease_duration = 5", "using 20 instead"),
        ("warning : look out", "look out"),
        ("queue f matching *.none\nqueue", "'*.none' does not match any files"),
        ("queue v in (1)", "the Queue variable 'v' was unused"),
        ("JOBSET.Color = 3", "schedd does not support jobsets.  Ignoring JOBSET.* attributes"),
    ],
)
def test_a_suspicious_line_causes_a_warning(lines: str, warning: str) -> None:
    queue = "" if "queue " in lines else "\nqueue"
    assert any(warning in printed for printed in submit(lines + queue).warnings)


@pytest.mark.parametrize("lines", ["a = 1\narguments = $(a)", "tmp.x = 1", "+Foo = 1", "request_licenses = 1"])
def test_a_line_with_an_effect_causes_no_warning(lines: str) -> None:
    assert submit(f"{lines}\nqueue").warnings == []


def test_ten_megabytes_of_arguments_are_accepted() -> None:
    arguments = "0123456789abcde " * 650_000
    assert submit(f"arguments = {arguments}\nqueue").ad["Args"] == f'"{arguments.strip()}"'


@pytest.mark.parametrize("piece", ["$(", "$(a:", "$(a:$(", "$INT(", "$$(", "'", '"', "\\", "(", "$(x", "+", "$(a:()"])
def test_a_value_of_many_unclosed_pieces_is_parsed_or_rejected(piece: str) -> None:
    for lines in (
        f"arguments = {piece * 50_000}",
        f"requirements = {piece * 5_000}",
        f"a = {piece * 50_000})\narguments = $(a)",
    ):
        try:
            submit(f"{lines}\nqueue")
        except SubmitError as error:
            assert len(str(error)) < 1000


def test_macros_that_grow_exponentially_are_rejected() -> None:
    lines = "\n".join(f"a{n} = $(a{n + 1})$(a{n + 1})" for n in range(60))
    with pytest.raises(SubmitError, match="million characters"):
        submit(f"{lines}\na60 = boom\narguments = $(a0)\nqueue")


def test_importing_the_submit_package_does_not_import_numpy() -> None:
    package = Path(__file__).parent.parent.parent / ".path"
    program = "import sys; import poolbook.domain.submit; print('numpy' in sys.modules)"
    process = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(package)}, capture_output=True, text=True, check=True
    )
    assert process.stdout == "False\n"


def test_many_unknown_names_are_reported_without_suggestions_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []

    def close_names(word: str, *rest: object) -> list[str]:
        compared.append(word)
        return []

    monkeypatch.setattr(submission, "close_names", close_names)
    warnings = submit("".join(f"unknown{number} = 1\n" for number in range(500)) + "queue").warnings
    assert sum("was unused by condor_submit" in warning for warning in warnings) == 500
    assert len(compared) < 50
