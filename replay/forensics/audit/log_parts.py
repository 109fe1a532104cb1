"""Follow the order of a rotated log's parts, and spot one record whose time is not its own."""

from __future__ import annotations

from attrs import define, field


@define
class Parts:
    """The parts of a rotated log, oldest first, as their records come. A part may go on after records of its successor
    were read, if a folder was copied while it was written."""

    order: list[int] = field(factory=list)
    current: int = 0

    def later(self, source: int) -> list[int] | None:
        """Return the parts behind the current record's, if it does not follow from the record before; else None."""
        if source == self.current:
            return None
        self.current = source
        if source not in self.order:
            self.order.append(source)
            return None
        return self.order[self.order.index(source) + 1 :]
