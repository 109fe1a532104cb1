"""The fabric carries messages between roles: each draft sends through one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from .messages import Message
from .stimuli import SlotMessage

Sender = TypeVar("Sender", contravariant=True)


class Fabric(Protocol[Sender]):
    """Carries messages from a decision to their receivers, which may be in another process.

    The receiver decides on a state and a log of its own, or on the sender's where both are in one log. Before its rule
    is asked it has emitted the events of the sender's decision so far, as far as it learns them
    (``fold.evolve.learns``); before the answer is returned, the sender has emitted the receiver's in the same way.
    """

    def deliver(self, sender: Sender, message: Message[Any] | SlotMessage) -> Any:
        """Have the receiver of a message decide on it; return its answer.

        :raises Refusal: the receiver refuses it; then all that the decision did is dropped, at the receiver too
        """

    def conclude(self, sender: Sender) -> None:
        """Send the rest of the decision's events to their receivers, and emit what these decide."""
