"""Property: the bytes of a file arrive unchanged, whichever system calls copy them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from poolbook.adapters.machine.execution.supervisor.copying import carry


@given(size=st.integers(0, 5000) | st.integers(1 << 16, (1 << 16) + 3))
def test_a_copy_on_one_machine_has_the_same_bytes(size: int) -> None:
    data = os.urandom(size)
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "source"), Path(folder, "target")
        source.write_bytes(data)
        with open(source, "rb") as reader, open(target, "wb") as writer:
            assert carry(reader.fileno(), writer.fileno()) == size
        assert target.read_bytes() == data
