"""Transfers between the spool of an access point and users on other machines.

The files of a job are offered like an activation's (``adapters.files``), so a transfer continues where a
connection was cut.
"""

from __future__ import annotations

import os
from typing import Any, Final, Literal, Protocol

from msgspec import Struct

from ...domain.schedd.submitted_job import attribute_text
from ...domain.state.pool_settings import super_users
from ..machine.execution.activation import FileTransfer, LaunchRequest, UnixAccount
from ..machine.spool import Spool
from ..runtime.job_users import files_account, rights_of
from ..runtime.queries import Queries
from ..runtime.requests import RequestRefused
from ..runtime.spooled_files import changes_after_spooling, output_names
from ..stores.log_paths import log_paths

_PREFIX = "spool-"


class OfferFiles(Struct, frozen=True, tag_field="kind"):
    """Offer to receive a job's files into the spool, or to send its outputs from there."""

    id: str
    job: tuple[int, int]
    part: Literal["inputs", "outputs"]


class TakeFiles(Struct, frozen=True, tag_field="kind"):
    """The transfer of a job's files has ended; with `part` inputs, return the changes to the job's ad."""

    id: str
    job: tuple[int, int]
    part: Literal["inputs", "outputs"]


SPOOL_KINDS: Final = (OfferFiles.__name__, TakeFiles.__name__)


class Offering(Protocol):
    """Offers files to other machines: ``FileService``."""

    def offer_request(self, request: LaunchRequest) -> str:
        """Offer the files of a request with this key; return the transfer key."""

    def withdraw(self, names: list[str]) -> None: ...


class SpoolTransfers:
    """Answers requests about the files of the jobs in one log."""

    def __init__(self, log: str, files: Offering) -> None:
        self._log, self._files = log, files

    def answer(self, request: OfferFiles | TakeFiles, user: str) -> dict[str, Any]:
        """Raise `RequestRefused` if the user has no such job."""
        ad = self._job_of(request.job, user)
        account = files_account(ad["Owner"].strip('"'))
        place = Spool(log_paths(self._log).folder).path(*request.job, account)
        name = f"{_PREFIX}{request.job[0]}.{request.job[1]}-{request.part}"
        if isinstance(request, OfferFiles):
            return self._offer(name, request.part, place, ad, account)
        self._files.withdraw([name])
        with rights_of(ad["Owner"].strip('"')):
            return dict(changes_after_spooling(place, ad)) if request.part == "inputs" else {}

    def _job_of(self, job: tuple[int, int], user: str) -> dict[str, str]:
        """Return the attributes of a user's job."""
        with Queries(self._log) as queries:
            ad, settings = queries.job(*job), queries.views.pool().settings
        if ad is None:
            raise RequestRefused(f"there is no job {job[0]}.{job[1]} in the queue")
        if user != ad.eval("Owner") and user not in super_users(settings):
            raise RequestRefused(f"job {job[0]}.{job[1]} belongs to {ad.eval('Owner')}; only its owner may do that")
        return {each: attribute_text(ad, each) for each in ad}

    def _offer(
        self, name: str, part: str, place: str, ad: dict[str, str], account: UnixAccount | None
    ) -> dict[str, Any]:
        owner = ad["Owner"].strip('"')
        if part == "inputs":
            names: list[str] = []
            transfer = FileTransfer(executable=False, spool=place, checkpoint={"code": 0})
        else:
            self._files.withdraw([name])  # the outputs may have changed since an earlier offer
            with rights_of(owner):
                names = output_names(place, ad)
            transfer = FileTransfer(executable=False, inputs=tuple(names), preserve=True)
        request = LaunchRequest(
            key=name, job=name, slot="", executable="", iwd=os.path.dirname(place) if part == "inputs" else place,
            files=account, transfer=transfer,
        )  # fmt: skip
        return {"activation": name, "key": self._files.offer_request(request), "names": names}
