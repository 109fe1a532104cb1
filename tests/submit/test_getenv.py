"""Golden: which environment variables a job gets (the manual page of condor_submit), and the warnings about them."""

from __future__ import annotations

from poolbook.domain.classad.argument_syntax import select_variables
from poolbook.domain.submit import parse_submit

from ..together import together
from .fakes import FakeFiles, facts

ENVIRONMENT = {
    "PATH": "/bin", "Path_Info": "x", "CUDA_HOME": "/c", "MY_cuda": "y", "Q": "q", "A[1]": "z", "A1": "w",
    "BEARER_TOKEN": "t", "DB_PASSWORD": "p", "LINES": "one\ntwo",
}  # fmt: skip
EVERYTHING = "PATH Path_Info CUDA_HOME MY_cuda Q A[1] A1 BEARER_TOKEN DB_PASSWORD"


@together(
    ("patterns", "names"),
    [
        ("", EVERYTHING),
        ("*", EVERYTHING),
        ("path", "PATH"),
        ("path*", "PATH Path_Info"),
        ("*cuda*", "CUDA_HOME MY_cuda"),
        ("!path, P*, Q*", "Path_Info Q"),
        ("!*cuda*;!B*", "PATH Path_Info Q A[1] A1 DB_PASSWORD"),
        ("a[1]", "A[1]"),
        ("lines", ""),
    ],
)
def test_patterns_ignore_case_and_only_the_star_is_special(patterns: str, names: str) -> None:
    assert list(select_variables(patterns, ENVIRONMENT)) == names.split()


COPIES_ALL = "getenv = true copies all of your environment into the job's ad and the log"
FIX = "; list what the job needs: getenv = PATH, HOME"


@together(
    ("line", "environment", "warnings"),
    [
        ("getenv = PATH, bearer_token", ENVIRONMENT, []),
        ("getenv = P*", ENVIRONMENT, []),
        ("getenv = false", ENVIRONMENT, []),
        ("getenv = true", {"PATH": "/bin"}, [COPIES_ALL + FIX]),
        ("getenv = true", ENVIRONMENT, [f"{COPIES_ALL}, also BEARER_TOKEN, DB_PASSWORD{FIX}"]),
        (
            "getenv = B*",
            ENVIRONMENT,
            [f"getenv = B* copies your environment into the job's ad and the log, also BEARER_TOKEN{FIX}"],
        ),
        (
            "getenv = *",
            {f"TOKEN{i}": "t" for i in range(5)},
            [
                "getenv = * copies your environment into the job's ad and the log, also TOKEN0, TOKEN1, TOKEN2 and "
                f"others like it{FIX}"
            ],
        ),
    ],
)
def test_copying_everything_or_an_unnamed_secret_causes_a_warning(
    line: str, environment: dict[str, str], warnings: list[str]
) -> None:
    text = f"executable = /bin/true\n{line}\nqueue 2\n"
    assert parse_submit(text, facts(environment=environment), FakeFiles({})).warnings == warnings
