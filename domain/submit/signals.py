"""Know signals by name and number, as Linux has them."""

from __future__ import annotations

from types import MappingProxyType

from .job import leading_integer

_NAMES = (
    "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM"
    " SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF"
    " SIGWINCH SIGIO SIGPWR SIGSYS"
)
NUMBERS = MappingProxyType({name: number for number, name in enumerate(_NAMES.split(), 1)})
_BY_NUMBER = MappingProxyType({number: name for name, number in NUMBERS.items()})


def signal_name(value: str) -> str | None:
    """Return the name of a signal given by number or by name in any case; None where there is no such signal."""
    number = leading_integer(value)
    name = _BY_NUMBER.get(number) if number else value.strip().upper()
    return name if name in NUMBERS else None
