"""golden: what a submission says of the transfer of its files, in all words that HTCondor's enum_utils.cpp knows."""

from __future__ import annotations

from ..together import together
from .world import submit, values

WORDS = {
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


@together("words, told", WORDS.items())
def test_whether_and_when_files_move_is_said_in_several_words(
    words: tuple[str, str], told: tuple[str, str | None]
) -> None:
    commands = zip(("should_transfer_files", "when_to_transfer_output"), words, strict=True)
    said = submit("\n".join([*(f"{name} = {word}" for name, word in commands if word), "queue"]))
    found = tuple(values(said, name)[0] for name in ("ShouldTransferFiles", "WhenToTransferOutput"))
    assert found == tuple(None if word is None else f'"{word}"' for word in told)
