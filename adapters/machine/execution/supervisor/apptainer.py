"""Run a job in an apptainer (or singularity) container, whose processes are descendants like any other job's.

Source: HTCondor 25.14's ``singularity.cpp``, including its message when the test before the job fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from typing import Any

from . import launch, rights
from .launch import NULL_LAST, Order
from .rights import UserIds

TEST_FAILED = -1000  #: HoldReasonSubCode of a test that failed
_OWN = frozenset(
    {"APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD", "SINGULARITY_DOCKER_USERNAME",
     "SINGULARITY_DOCKER_PASSWORD"}
)  # fmt: skip
"""The variables of the runtime that a job may set."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def become_apptainer(
    order: Order, scratch: str, variables: dict[str, str], streams: list[int], account: UserIds | None
) -> dict[str, Any]:
    """Execute the runtime that runs the job; return why that failed."""
    spec = order["container"]
    with contextlib.suppress(ValueError, OSError):
        launch.apply_limits(order)
    if account is not None:
        os.umask(rights.MASK)
        rights.become(account)
    os.chdir(launch.working_directory(order, scratch))
    inner_environment = environment(spec, variables, scratch, order["iwd"])
    argv_before, argv_after = command(order, scratch)
    argv = [*argv_before, *argv_after]
    if spec["test"]:
        failure = _test_command(argv_before, inner_environment)
        if failure is not None:
            return {"part": "singularity", "errno": TEST_FAILED, "reason": f"Singularity test failed:{failure}"}
    argv = launch.command_line(order, argv)
    for number in NULL_LAST:
        os.dup2(streams[number], number)
    try:
        os.execve(argv[0], argv, inner_environment)
    except OSError as error:
        return {"part": "executable", "errno": error.errno, "reason": f"executable {argv[0]}: {error.strerror}"}


def command(order: Order, scratch: str) -> tuple[list[str], list[str]]:
    """Return the arguments up to the image, and the job's command."""
    spec, iwd = order["container"], order["iwd"]
    target, program = spec["target"], spec["program"]
    in_scratch = iwd == scratch  # the job's files were transferred
    if spec["brought"]:
        program = f"{scratch}/{os.path.basename(program)}"
    if target and program.startswith(f"{scratch}/"):
        program = f"{target}/{program[len(scratch) + 1 :]}"
    argv = [spec["command"], *spec["verbosity"], "exec" if program else "run"]
    for path in spec["under_scratch"]:
        argv += ["-S", path]
    if not in_scratch:
        argv += ["-B", iwd]
    argv += ["-W", scratch]
    if target and not in_scratch:
        argv += ["--pwd", target, "-B", f"{scratch}:/condor_scratch"]
    else:
        argv += ["--pwd", target or iwd]
    argv += ["-B", f"{iwd}:{target}" if target else iwd, *spec["gpus"]]
    for bind in spec["binds"]:
        if os.path.exists(bind.partition(":")[0]) and not (spec["only_present"] and _lacks(_image(spec, iwd), bind)):
            argv += ["-B", bind]
    argv += [*(["--home", scratch] if in_scratch else []), *spec["containment"], *spec["extra"], _image(spec, iwd)]
    return argv, [*([program] if program else []), *order["arguments"]]


def _image(spec: dict[str, Any], iwd: str) -> str:
    image: str = spec["image"]
    return image if image.startswith("/") or "://" in image or not spec["beside"] else os.path.join(iwd, image)


def _lacks(image: str, bind_mount: str) -> bool:
    """Return True if an image directory lacks the target of a bind."""
    source, _, bind_target = bind_mount.partition(":")
    place = bind_target.partition(":")[0] or source
    return os.path.isdir(image) and not os.path.isdir(f"{image}/{place}")


def environment(spec: dict[str, Any], variables: dict[str, str], scratch: str, iwd: str) -> dict[str, str]:
    """Return the runtime's environment; variables with its prefix are passed into the container. A job may set a
    variable that controls the runtime only if the administrator allows it."""
    prefix, target = spec["prefix"], spec["target"]
    allowed_names = _OWN | set(spec["allowed"])
    steering = ("APPTAINER_", "SINGULARITY_")
    outer_variables = {
        name: text
        for name, text in variables.items()
        if name in allowed_names or not name.startswith(steering)
        if name != "HOME"
    }
    inner_variables = dict(outer_variables)
    if target:
        moved_variables = {name: text.replace(scratch, target, 1) for name, text in outer_variables.items()}
        if iwd != scratch:
            moved_variables["_CONDOR_SCRATCH_DIR"] = "/condor_scratch"
        outer_scratch = outer_variables.get("_CONDOR_SCRATCH_DIR", scratch)
        inner_variables = {**moved_variables, "_CONDOR_SCRATCH_DIR_OUTSIDE_CONTAINER": outer_scratch}
    runtime = prefix.removesuffix("ENV_")
    own_variables = {f"{runtime}_CACHEDIR": scratch, f"{runtime}_TMPDIR": scratch, f"{prefix}PS1": spec["prompt"]}
    named = {f"{prefix}{name}": text for name, text in inner_variables.items() if not name.startswith(prefix)}
    return {"PATH": os.environ.get("PATH", os.defpath), **outer_variables, **named, **own_variables}


def _test_command(argv: list[str], variables: dict[str, str]) -> str | None:
    """Test whether the image runs at all. Return None if it does, otherwise the first line of the error message."""
    verb = next(place for place, word in enumerate(argv) if word in ("exec", "run"))
    try:
        completed = subprocess.run(
            [*argv[:verb], "-q", "test", *argv[verb + 1 :]],
            env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        return str(error)
    if not completed.returncode:
        return None
    return _COLOURS.sub("", completed.stdout.decode(errors="replace")[:255]).partition("\n")[0]
