"""A pool whose log this process can read: queries read the log, and requests go to the log's server."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from ...domain.decide import Refusal
from ...domain.negotiator.accounting import Standing
from ...domain.state.job_ad import STATUS_NUMBERS
from ...replay.narration.sentences import UnknownThingError
from ..machine.host import user_name
from ..runtime.job_output import output_files
from ..runtime.pool_client import ask
from ..runtime.queries import NoNegotiator
from ..runtime.requests import Request, RequestRefused
from .read_only_log import Log

_COMPLETED: Final = STATUS_NUMBERS["Completed"]


class LocalPool(Log):
    """The log of a pool, and requests to the pool. `Client` describes the methods."""

    @property
    def user(self) -> str:
        return user_name()

    def ask(self, request: Request) -> Any:
        """Execute a request, and return the answer. Raise `Refusal` or `LogError`."""
        self._open_store()
        try:
            return ask(self.url, request)
        except RequestRefused as refused:
            raise Refusal(str(refused), refused.code, refused.tool) from None

    def standings(self, negotiator: str, at: float | None) -> list[Standing]:
        with self._calls, self._queries(at) as queries:
            try:
                return queries.standings(queries.negotiator(negotiator))
            except NoNegotiator as error:
                raise Refusal(str(error)) from None

    def usage_of_claims(self) -> dict[str, float]:
        with self._calls, self._queries() as queries:
            return queries.usage_of_claims()

    def output(self, job: tuple[int, int], stream: str) -> bytes:
        name = f"job {job[0]}.{job[1]}"
        with self._calls, self._queries() as queries:
            ad = queries.any_job(*job)
            has_ended = ad is None or ad.eval("JobStatus") == _COMPLETED
            run = None if has_ended else queries.run(*job)
        if ad is None:
            raise UnknownThingError(f"{name} is neither in the queue nor in the history")
        for path in output_files(self.url, job, ad, run, stream):
            with suppress(FileNotFoundError, IsADirectoryError):
                return path.read_bytes()
        command = {"stdout": "output", "stderr": "error"}[stream]
        raise UnknownThingError(
            f"{name} has written no {stream}, or its file is gone; `{command}` in its description names it"
        )
