"""golden: all names of the file transfer modes that HTCondor's enum_utils.cpp accepts."""

from __future__ import annotations

from ..together import together
from .fakes import submit, values

MODES = {
    ("", ""): ("IF_NEEDED", "ON_EXIT"),
    ("TRUE", ""): ("YES", "ON_EXIT"),
    ("always", "OnExit"): ("YES", "ON_EXIT"),
    ("false", ""): ("NO", None),
    ("never", "none"): ("NO", None),
    ("auto", "on_exit"): ("IF_NEEDED", "ON_EXIT"),
    ("yes", "OnSuccess"): ("YES", "ON_SUCCESS"),
    ("yes", "ALWAYS"): ("YES", "ON_EXIT_OR_EVICT"),
    ("", "on_exit_or_evict"): ("YES", "ON_EXIT_OR_EVICT"),
}


@together("names, modes", MODES.items())
def test_a_file_transfer_mode_has_several_names(names: tuple[str, str], modes: tuple[str, str | None]) -> None:
    commands = zip(("should_transfer_files", "when_to_transfer_output"), names, strict=True)
    submission = submit("\n".join([*(f"{command} = {name}" for command, name in commands if name), "queue"]))
    attributes = tuple(values(submission, name)[0] for name in ("ShouldTransferFiles", "WhenToTransferOutput"))
    assert attributes == tuple(None if mode is None else f'"{mode}"' for mode in modes)
