"""Property: wherever the access point is killed while it receives outputs or brings them to their destinations, the
next one completes the transfer, and each file is complete or not there."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from poolbook.adapters.files.offers import Offer, Offers
from poolbook.adapters.machine.execution.activation import FileTransfer, LaunchRequest
from poolbook.adapters.machine.execution.supervisor.file_pieces import (
    DIRECTORY,
    FILE,
    STREAM,
    Layout,
    describe,
    read_pieces,
)

from .. import children
from .site import tree

CALLS = ("replace", "rename", "link", "mkdir", "pwrite", "unlink")


def kill_at(number: int) -> None:
    """Kill this process when it changes a directory or a file for the time of this number."""
    calls = itertools.count(1)

    def killing(call: Callable[..., Any]) -> Callable[..., Any]:
        def killed(*arguments: Any, **options: Any) -> Any:
            if next(calls) == number:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **options)

        return killed

    for name in CALLS:
        setattr(os, name, killing(getattr(os, name)))


class Sender:
    """Sends outputs to an access point in a directory, and begins again with the same list when that was killed."""

    def __init__(self, home: Path, kind: str) -> None:
        self.iwd, self._notes, self._kind = home / "iwd", home / "files", kind
        sandbox = home / "sandbox"
        (sandbox / "d").mkdir(parents=True)
        self.iwd.mkdir()
        for name, size in {"large": (1 << 20) + 5, "d/small": 3, "empty": 0, "_condor_stdout": 4}.items():
            (sandbox / name).write_bytes(os.urandom(size))
        (self.iwd / "large").write_bytes(b"old")
        kinds = {"d": DIRECTORY, "_condor_stdout": STREAM if kind == "output" else FILE}
        names = ["large", "d", "d/small", "empty", "_condor_stdout"]
        self.entries = [describe(kinds.get(name, FILE), name, str(sandbox / name)) for name in names]
        self.expected = tree(sandbox)
        if kind == "output":
            self.expected["out"] = self.expected.pop("_condor_stdout")
        self.spool = home / "spool/cluster1.proc0.subproc0"
        transfer = FileTransfer(
            outputs=("large", "d", "empty"), brought=("stdout",), spool=str(self.spool), on_evict=True
        )
        self._request = LaunchRequest(
            key="7", job="1.0", slot="s", executable="/bin/true", iwd=str(self.iwd), stdout="out", transfer=transfer
        )

    def send(self) -> dict[str, Any]:
        offers = Offers(self._notes)
        offers.offer(self._request, run=1)
        offer = offers.find("7")
        assert isinstance(offer, Offer)
        body = json.dumps({"id": "1", "kind": self._kind, "entries": self.entries}).encode()
        tag, position = offer.begin_outputs(body)
        layout = Layout(self.entries)
        sender = offer.start_sending(tag, position)
        for block in read_pieces(layout, position, layout.length):
            offer.receive(sender, block)
        result = offer.place_outputs(tag)
        offers.close()
        return result

    def contents(self) -> dict[str, tuple[int, bytes | None]]:
        folder = self.iwd if self._kind == "output" else self.spool
        return {name: value for name, value in tree(folder).items() if not name.startswith(".poolbook-")}


@pytest.mark.parametrize("kind", ["output", "evict"])
def test_the_next_access_point_completes_a_transfer_that_was_killed_anywhere(tmp_path: Path, kind: str) -> None:
    for number in itertools.count(1):
        (tmp_path / str(number)).mkdir()
        sender = Sender(tmp_path / str(number), kind)

        def send_and_die(sender: Sender = sender, number: int = number) -> None:
            kill_at(number)
            sender.send()

        code = children.exit_code(send_and_die)
        for name, value in (sender.contents() if sender.spool.exists() or kind == "output" else {}).items():
            assert value == sender.expected[name] or (name, value[1]) == ("large", b"old"), (number, name)
        result = sender.send()
        assert (result["size"], result["failures"]) == ((1 << 20) + 12, []), number
        assert sender.contents() == sender.expected, number
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert number > 15
