"""The submissions of a program. Those of several threads share an append, because each append waits for the disk."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ...domain.ports import stimuli as s
from ...domain.submit import SubmitWarning
from ...domain.units import SECOND
from ...replay.virtual_world import VirtualWorld
from ..runtime.engine import Engine

if TYPE_CHECKING:
    from ..runtime.log_writer import StimulusResult
    from ..runtime.requests import SubmitTerms

_WAY_OUT = "run that program yourself, and submit its output"


class Submission(Struct, eq=False):
    """A call of `Pool.submit`, which may wait for other threads' calls."""

    description: str | Mapping[str, object]
    count: int
    user: str
    folder: Path
    request: s.Submit | None = None
    result: StimulusResult | None = None  #: the result, once its events are in the log


def submit_together(engine: Engine, own: Submission, waiting: Sequence[Submission]) -> StimulusResult:
    """Submit, together with the submissions of other threads in ``waiting``. One that is invalid, or needs a warning,
    is left to the thread that made it. Raise `SubmitError` if this submission is invalid."""
    batch = [own]
    if own.request is None or own.request.id not in engine.state.answers:  # else a call failed after its append
        own.request, texts = _request(engine, own, engine.state.next_cluster)
        for text in texts:
            warnings.warn(text, SubmitWarning, stacklevel=4)
        for other in [each for each in waiting if each is not own and each.request is None]:
            with suppress(Exception):
                request, texts = _request(engine, other, engine.state.next_cluster + len(batch))
                if not texts:
                    other.request = request
                    batch.append(other)
    for each in batch:
        _allow_jobs_of(engine, each.user)
    results = engine.handle([each.request for each in batch if each.request is not None])
    for each, result in zip(batch, results, strict=True):
        each.result = result
    return results[0]


def _request(engine: Engine, submission: Submission, number: int) -> tuple[s.Submit, list[str]]:
    """Return the request of a submission whose cluster has this number, and its warnings."""
    from ..runtime.requests import SubmitTerms

    terms = SubmitTerms.from_state(engine.state, number)
    return submission_request(submission, terms, engine.id("submit"), engine.world.now() // SECOND)


def submission_request(submission: Submission, terms: SubmitTerms, id: str, now: int) -> tuple[s.Submit, list[str]]:
    """Return the request with the jobs of a submission at an instant, in seconds, and its warnings. Raise `SubmitError`
    if the submission is invalid."""
    from ..runtime.disk import ReadOnlyDisk
    from ..runtime.submit_request import submission_of, submit_request

    parsed = submission_of(
        submission.description, count=submission.count, user=submission.user, seed=terms.cluster, now=now,
        disk=ReadOnlyDisk(submission.folder, _WAY_OUT), terms=terms,
    )  # fmt: skip
    return submit_request(parsed, id, submission.user, terms.cluster), parsed.warnings


def check_arguments(description: object, count: object) -> None:
    """Raise `TypeError` or `ValueError` if these are not valid arguments of `Pool.submit`."""
    if not isinstance(description, str | Mapping):
        raise TypeError("a submission is a submit description's text, or a mapping of its commands")
    if not isinstance(count, int) or (isinstance(description, str) and count != 1):
        raise ValueError(f"count = {count!r}: give a whole number with a mapping; a text has its queue statement")


def _allow_jobs_of(engine: Engine, user: str) -> None:
    """With real execution, let jobs of this user run with the privileges of this process."""
    world = engine.world
    if not isinstance(world, VirtualWorld):
        from ..runtime.local_world import LocalWorld

        if isinstance(world, LocalWorld):
            world.owners.add(user)
