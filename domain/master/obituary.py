"""The text of mails about daemons that died. Subjects and sentences match HTCondor's, because administrators filter by
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..schedd.mail_text import signature_lines
from .transitions import DaemonGivenUp, ObituaryDue, describe_end


def obituary(
    death: ObituaryDue | DaemonGivenUp, program: str, host: str, settings: Mapping[str, str], log: str = "",
    last_lines: Sequence[str] = (), lines: int = 0,
) -> tuple[str, str]:  # fmt: skip
    """Return the subject and the text of the mail about a death. ``last_lines`` are the end of the file ``log``, of
    which at most ``lines`` lines are quoted."""
    subject = f"[Condor] Problem {host}: {program.rpartition('/')[2]}"
    text = "\n".join(_lines(death, program, host, log, last_lines, lines))
    signature = "\n".join(signature_lines(settings, host))
    if isinstance(death, DaemonGivenUp):
        return f"{subject} is not restarted", f"{text}\n{signature}\n"
    return (
        f"{subject} {f'died ({-death.code})' if death.code < 0 else f'exited ({death.code})'}",
        f"{text}\n{signature}\n",
    )


def _lines(
    death: ObituaryDue | DaemonGivenUp, program: str, host: str, log: str, last_lines: Sequence[str], lines: int
) -> Iterator[str]:
    yield f'This mail was written by the master on "{host}".'
    yield ""
    if isinstance(death, DaemonGivenUp):
        yield f'"{program}" on "{host}" has ended {death.deaths} times in a row.'
        yield f"It is not restarted any more; `poolbook on -daemon {death.daemon}` restarts it."
    else:
        yield f'"{program}" on "{host}" {describe_end(death.code)}.'
        if death.seconds is None:
            yield "It is not restarted, because it was being stopped."
        else:
            yield f"Condor will automatically restart this process in {death.seconds} seconds."
    yield ""
    if last_lines:
        yield f"*** Last {lines} line(s) of file {log}:"
        yield from last_lines
        yield f"*** End of file {log.rpartition('/')[2]}"
