"""The eventsourcing library on a log: its own contract tests on every store, and its classes in use."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import ExitStack
from functools import singledispatchmethod
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar
from unittest import skipUnless
from uuid import uuid4

from eventsourcing.application import Application
from eventsourcing.persistence import ApplicationRecorder, Tracking
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner

from poolbook.adapters.stores.persistence import StoreRecorder
from poolbook.domain.events import SlotAdChanged

from .places import POSTGRES, Place, place_of
from .samples import changed

CONTRACTS = find_spec("Crypto") is not None  # the library's tests of its ciphers are in the same module


def test_ci_runs_the_librarys_contract_tests() -> None:
    assert CONTRACTS or os.environ.get("CI", "").lower() not in ("true", "1"), "pip install pycryptodome"


class _Contract:
    """A test case of the library, which needs a recorder, on a log of one kind of store."""

    kind: ClassVar[str]

    def setUp(self) -> None:
        self._open = ExitStack()
        folder = Path(self._open.enter_context(TemporaryDirectory()))
        self._place = self._open.enter_context(place_of(self.kind, folder))

    def tearDown(self) -> None:
        assert self._place.problems() == []
        self._open.close()

    def new_originator_id(self) -> str:
        return str(uuid4())

    def create_recorder(self) -> ApplicationRecorder:
        log = self._place.open()
        self._open.callback(log.close)
        return StoreRecorder(log._recorder)  # type: ignore[attr-defined]


if CONTRACTS:
    from eventsourcing.tests.persistence import ApplicationRecorderTestCase, NonInterleavingNotificationIDsBaseCase

    class TestInMemory(_Contract, ApplicationRecorderTestCase[ApplicationRecorder]):
        kind = "memory"

        def test_insert_subscribe(self) -> None:
            self.optional_test_insert_subscribe()

    class TestInSQLite(TestInMemory):
        kind = "sqlite"

    @skipUnless(POSTGRES, "needs POOLBOOK_TEST_POSTGRES")
    class TestInPostgreSQL(TestInMemory):
        kind = "postgresql"

    class TestInterleavingInMemory(_Contract, NonInterleavingNotificationIDsBaseCase):
        kind = "memory"

    class TestInterleavingInSQLite(TestInterleavingInMemory):
        kind = "sqlite"

    @skipUnless(POSTGRES, "needs POOLBOOK_TEST_POSTGRES")
    class TestInterleavingInPostgreSQL(TestInterleavingInMemory):
        kind = "postgresql"


class Pool(Application[str]):
    """The application whose sequence is a pool's log."""


class ChangesOfSlots(POPOTrackingRecorder):
    """A read model: how often each slot's ad has changed, with the position up to which that is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def count(self, slot: str, tracking: Tracking) -> None:
        self.insert_tracking(tracking)
        self.counts[slot] += 1


class CountChanges(Projection[ChangesOfSlots]):
    topics = ("slot.changed",)

    @singledispatchmethod
    def process_event(self, event: Any, tracking: Tracking) -> None:
        """Ignore other kinds of events."""

    @process_event.register
    def _(self, event: SlotAdChanged, tracking: Tracking) -> None:
        self.view.count(event.slot, tracking)


def test_the_librarys_projection_runner_follows_a_log(place: Place) -> None:
    log = place.open()
    log.append([changed(1, slot="a"), changed(2, slot="b")])
    env = {"POOL_PERSISTENCE_MODULE": "poolbook.adapters.stores.persistence", "POOL_LOG_URL": place.url}
    with ProjectionRunner(
        application_class=Pool, projection_class=CountChanges, view_class=ChangesOfSlots, env=env
    ) as runner:
        runner.wait(2, timeout=20)
        assert runner.view.counts == {"a": 1, "b": 1}
        log.append([changed(3, slot="a")])
        runner.wait(3, timeout=20)
        assert runner.view.counts == {"a": 2, "b": 1}


def test_a_projection_reads_a_log_in_batches(sqlite: Place) -> None:
    """Faster than the runner, which commits once for each event: many events, and one tracking for all of them."""
    log = sqlite.open()
    log.append([changed(number, slot="ab"[number % 2]) for number in range(100)])
    view = ChangesOfSlots()
    while batch := list(log.read(view.max_tracking_id("Pool") or 0, limit=30)):
        view.counts.update(event.slot for _, event in batch if isinstance(event, SlotAdChanged))
        view.insert_tracking(Tracking("Pool", batch[-1][0]))
    assert view.counts == {"a": 50, "b": 50}
    assert view.max_tracking_id("Pool") == 100
