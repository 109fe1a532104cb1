"""The fabric delivers messages between roles. Each draft has one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from .messages import Message
from .stimuli import SlotMessage

Sender = TypeVar("Sender", contravariant=True)


class Fabric(Protocol[Sender]):
    """Delivers the messages of a decision. The receiver may be in another process.

    The receiver decides with a separate state and log, or with the sender's if both roles share a log. First it emits
    the events of the sender's decision that its state learns (``fold.evolve.learns``). In the same way, the sender
    emits the receiver's events before it gets the answer.
    """

    def deliver(self, sender: Sender, message: Message[Any] | SlotMessage) -> Any:
        """Have the receiver decide a message. Return its answer.

        :raises Refusal: the receiver rejects it; sender and receiver drop the events of this decision
        """

    def conclude(self, sender: Sender) -> None:
        """Send the remaining events of the decision to the receivers, and emit the events that they decide."""
