"""Run a job in a container of apptainer (or singularity), whose processes are the job's own as any others.

Source: HTCondor 25.14's ``singularity.cpp``, with its words where a test before the job fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from typing import Any

from . import launch, rights
from .launch import Order
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
    """Become the runtime that runs the job; return why that cannot be."""
    spec = order["container"]
    with contextlib.suppress(ValueError, OSError):
        launch.take_limits(order)
    if account is not None:
        os.umask(rights.MASK)
        rights.become(account)
    os.chdir(order["iwd"] if order["run_in_iwd"] else scratch)
    inner = environment(spec, variables, scratch, order["iwd"])
    before, behind = command(order, scratch)
    words = [*before, *behind]
    if spec["test"]:
        failure = _tested(before, inner)
        if failure is not None:
            return {"part": "singularity", "errno": TEST_FAILED, "reason": f"Singularity test failed:{failure}"}
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
    try:
        os.execve(words[0], words, inner)
    except OSError as error:
        return {"part": "executable", "errno": error.errno, "reason": f"executable {words[0]}: {error.strerror}"}


def command(order: Order, scratch: str) -> tuple[list[str], list[str]]:
    """Return the runtime's words up to the image, and those of the job."""
    spec, iwd = order["container"], order["iwd"]
    target, program = spec["target"], spec["program"]
    moved = iwd == scratch  # its files were transferred
    if spec["brought"]:
        program = f"{scratch}/{os.path.basename(program)}"
    if target and program.startswith(f"{scratch}/"):
        program = f"{target}/{program[len(scratch) + 1 :]}"
    words = [spec["command"], *spec["verbosity"], "exec" if program else "run"]
    for path in spec["under_scratch"]:
        words += ["-S", path]
    if not moved:
        words += ["-B", iwd]
    words += ["-W", scratch]
    if target and not moved:
        words += ["--pwd", target, "-B", f"{scratch}:/condor_scratch"]
    else:
        words += ["--pwd", target or iwd]
    words += ["-B", f"{iwd}:{target}" if target else iwd, *spec["gpus"]]
    for bind in spec["binds"]:
        if os.path.exists(bind.partition(":")[0]) and not (spec["only_present"] and _lacks(_image(spec, iwd), bind)):
            words += ["-B", bind]
    words += [*(["--home", scratch] if moved else []), *spec["containment"], *spec["extra"], _image(spec, iwd)]
    return words, [*([program] if program else []), *order["arguments"]]


def _image(spec: dict[str, Any], iwd: str) -> str:
    image: str = spec["image"]
    return image if image.startswith("/") or "://" in image or not spec["beside"] else os.path.join(iwd, image)


def _lacks(image: str, bind: str) -> bool:
    """Tell whether an image that is a directory lacks the place of a bind."""
    source, _, rest = bind.partition(":")
    place = rest.partition(":")[0] or source
    return os.path.isdir(image) and not os.path.isdir(f"{image}/{place}")


def environment(spec: dict[str, Any], variables: dict[str, str], scratch: str, iwd: str) -> dict[str, str]:
    """Return the runtime's environment: what has its prefix comes into the container. What steers the runtime itself a
    job may not set, but for what the machine's owner allows."""
    prefix, target = spec["prefix"], spec["target"]
    kept = _OWN | set(spec["allowed"])
    steering = ("APPTAINER_", "SINGULARITY_")
    found = {
        name: text
        for name, text in variables.items()
        if name in kept or not name.startswith(steering)
        if name != "HOME"
    }
    inside = dict(found)
    if target:
        inner = {name: text.replace(scratch, target, 1) for name, text in found.items()}
        if iwd != scratch:
            inner["_CONDOR_SCRATCH_DIR"] = "/condor_scratch"
        inside = {**inner, "_CONDOR_SCRATCH_DIR_OUTSIDE_CONTAINER": found.get("_CONDOR_SCRATCH_DIR", scratch)}
    runtime = prefix.removesuffix("ENV_")
    own = {f"{runtime}_CACHEDIR": scratch, f"{runtime}_TMPDIR": scratch, f"{prefix}PS1": spec["prompt"]}
    named = {f"{prefix}{name}": text for name, text in inside.items() if not name.startswith(prefix)}
    return {"PATH": os.environ.get("PATH", os.defpath), **found, **named, **own}


def _tested(words: list[str], variables: dict[str, str]) -> str | None:
    """Try whether the image can be run at all; return the first line of what is said against it."""
    verb = next(place for place, word in enumerate(words) if word in ("exec", "run"))
    try:
        done = subprocess.run(
            [*words[:verb], "-q", "test", *words[verb + 1 :]],
            env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    except OSError as error:
        return str(error)
    if not done.returncode:
        return None
    return _COLOURS.sub("", done.stdout.decode(errors="replace")[:255]).partition("\n")[0]
