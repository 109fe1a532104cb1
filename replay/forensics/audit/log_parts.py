"""In which order the records of a log came: which parts of a rotated log, and one record whose time is not its own."""

from __future__ import annotations

from attrs import define, field


@define
class Parts:
    """The parts of a rotated log, oldest first, as their records come. A part that goes on when records of its
    successor were read already (a folder was copied while it was written) tells afterwards what came before them."""

    order: list[int] = field(factory=list)
    current: int = 0

    def later(self, source: int) -> list[int] | None:
        """The parts behind the one of which a record comes now, if it does not follow from the record before it; None
        if it does."""
        if source == self.current:
            return None
        self.current = source
        if source not in self.order:
            self.order.append(source)
            return None
        return self.order[self.order.index(source) + 1 :]
