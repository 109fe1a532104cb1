"""The fabric, which delivers messages between roles. Each draft has one."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from .messages import Message
from .stimuli import SlotMessage

Sender = TypeVar("Sender", contravariant=True)


class Fabric(Protocol[Sender]):
    """Delivers the messages of a decision. The receiver may be in another process.

    The receiver decides with a separate state and log, or with the sender's if both roles share a log. A receiver with
    a separate log first emits those events of the sender's decision that affect the receiver's state
    (``fold.evolve.affects_role``). Likewise, the sender emits the receiver's events before it receives the answer.
    """

    def deliver(self, sender: Sender, message: Message[Any] | SlotMessage) -> Any:
        """Let the receiver decide a message, and return its answer.

        :raises Refusal: if the receiver rejects the message; sender and receiver discard this decision's events
        """

    def conclude(self, sender: Sender) -> None:
        """Send the remaining events of the decision to the receivers, and emit the events that they return."""
