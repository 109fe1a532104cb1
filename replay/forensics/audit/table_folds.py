"""Fold the schedd's and the negotiator's tables, limited to the attributes that the audit compares, and report
changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from attrs import define, field

from ....domain import events as e
from ....domain.imported.record_sources import DELETE_ATTRIBUTE, DESTROY_AD, LOG_SEQUENCE, NEW_AD, SET_ATTRIBUTE
from .job_ad_facts import ATTRIBUTES, READ, Ad, seconds

_ASKED: Final = {name.lower(): name for name in ATTRIBUTES}
OF_CUSTOMERS: Final = {
    "priority": "priority", "priorityfactor": "factor", "weightedaccumulatedusage": "usage",
    "accumulatedusage": "unweighted", "weightedunchargedtime": "uncharged_usage",
    "unchargedtime": "uncharged_unweighted", "beginusagetime": "used_since", "lastusagetime": "used_last",
}  # fmt: skip
"""The facts, by the accountant's attributes for customers."""
SUBMITTED: Final = READ["submitted"]
COPIED_ATTRIBUTES: Final = SUBMITTED + READ["copied"]
"""The attributes that all copies of an ad have from job_queue.log; those in `SUBMITTED` never change."""
STATUS: Final = ("JobStatus", "EnteredCurrentStatus")
STATUS_SEPARATOR: Final = " since "  #: joins JobStatus and its start time, which change in the same transaction
SET_ONCE: Final = ""


@define
class JobQueueFold:
    """Folds one job_queue.log. Calls ``report(cluster, proc, at, line, ad, final)`` for each job that leaves the queue,
    and ``report_repeated(key, at, line)`` for both times if a job leaves it twice. The ad contains, under ``SET_ONCE``,
    all past values of its ``COPIED_ATTRIBUTES``."""

    report: Callable[[int, int, int, int, Mapping[str, Any], bool], None]
    report_repeated: Callable[[str, int, int], None]
    at: int = 0
    _ads: dict[str, dict[str, str]] = field(factory=dict)
    _gone: dict[str, tuple[int, int]] = field(factory=dict)
    _lines: dict[str, int] = field(factory=dict)
    _values: dict[str, dict[str, set[str]]] = field(factory=dict)

    def fold_line(self, event: e.TableWritten, line: int) -> None:
        changed_keys = dict[str, None]()
        for operation, key, name, text in event.operations:
            if operation == LOG_SEQUENCE:
                self.finish()
            elif operation == DESTROY_AD:
                self._destroy(key, event.at, line)
            elif operation == NEW_AD:
                self._gone.pop(key, None)
                self._ads[key] = {}
                self._lines[key] = line
                changed_keys[key] = None
            elif name.lower() in _ASKED and key in self._ads:
                if operation == SET_ATTRIBUTE:
                    self._ads[key][_ASKED[name.lower()]] = text
                    changed_keys[key] = None
                elif operation == DELETE_ATTRIBUTE:
                    self._delete(key, _ASKED[name.lower()])
                self._lines[key] = line
        for key in changed_keys:
            self._keep(key)
        self.at = max(self.at, event.at)

    def _keep(self, key: str) -> None:
        ad, values = self._ads.get(key, {}), self._values.setdefault(key, {})
        for name in ad.keys() & COPIED_ATTRIBUTES:
            values.setdefault(name, set()).add(ad[name])
        status, status_since = (ad.get(name, self._ads.get(_cluster_key(key), {}).get(name)) for name in STATUS)
        values["JobStatus"] = values.get("JobStatus", set()) | {f"{status}{STATUS_SEPARATOR}{status_since}"}

    def _delete(self, key: str, name: str) -> None:
        """Delete an attribute; if the cluster's ad also has it, hide it, as ClassAd::Delete does."""
        self._ads[key].pop(name, None)
        if name in self._ads.get(_cluster_key(key), ()):
            self._ads[key][name] = "undefined"

    def _destroy(self, key: str, at: int, line: int) -> None:
        if key in self._ads:
            self._report_job(key, at, line, True)
            del self._ads[key], self._lines[key], self._values[key]
            self._gone[key] = at, line
        elif key in self._gone:
            self.report_repeated(key, *self._gone[key])
            self.report_repeated(key, at, line)

    def _report_job(self, key: str, at: int, line: int, final: bool) -> None:
        cluster, dot, proc = key.partition(".")
        ad = self._ads.get(key)
        if ad is None or not dot or not cluster.isdecimal() or not proc.isdecimal() or int(cluster) == 0:
            return
        if cluster.startswith("0") or "ClusterId" not in (merged_ad := self._ads.get(_cluster_key(key), {}) | ad):
            return  # records that are not jobs, such as owners
        ads = (self._values.get(_cluster_key(key), {}), self._values.get(key, {}))
        values = {name: sorted(set[str]().union(*(texts.get(name, ()) for texts in ads))) for name in COPIED_ATTRIBUTES}
        self.report(int(cluster), int(proc), at, line, {**merged_ad, SET_ONCE: values}, final)

    def finish(self) -> None:
        """Report the jobs that are still in the table when it ends or restarts."""
        for key in list(self._ads):
            self._report_job(key, self.at, self._lines[key], False)
        for table in (self._ads, self._lines, self._gone, self._values):
            table.clear()


def _cluster_key(key: str) -> str:
    return f"0{key.partition('.')[0]}.-1"


@define
class AccountantFold:
    """Folds one Accountantnew.log. Calls ``report(thing, fact, at, body, line)`` for each value of a submitter as of an
    update. ``spans`` are the pairs of updates between which the table contains all changes."""

    report: Callable[[str, str, int, str, int], None]
    spans: list[tuple[int, int]] = field(factory=list)
    _updated: int = 0
    _since: int = 0
    _waiting: list[tuple[str, str, str, int]] = field(factory=list)

    def fold_line(self, event: e.TableWritten, line: int) -> None:
        for operation, key, name, text in event.operations:
            if operation == LOG_SEQUENCE:
                self.finish()
            elif key.startswith("Accountant") and name == "LastUpdateTime" and operation == SET_ATTRIBUTE:
                self._update(text)
            elif key.startswith("Customer.") and operation == SET_ATTRIBUTE and name.lower() in OF_CUSTOMERS:
                self._waiting.append((key.removeprefix("Customer."), OF_CUSTOMERS[name.lower()], text, line))

    def _update(self, text: str) -> None:
        at = seconds({"at": text}, "at")
        if at is None:
            return
        self._settle(self._updated or at)
        self._updated = at
        self._since = self._since or at

    def _settle(self, at: int) -> None:
        for name, fact, text, line in self._waiting:
            self.report(name, fact, at, text, line)
        self._waiting.clear()

    def finish(self) -> None:
        if self._updated:
            self._settle(self._updated)
            self.spans.append((self._since, self._updated))
        self._updated = self._since = 0
        self._waiting.clear()


def submitter_facts(ad: Ad) -> Iterator[tuple[str, str]]:
    """Yield a submitter's facts from an ad of condor_userprio, in the form of the accountant's table."""
    factor = ad.get("PriorityFactor")
    if factor is not None:
        yield "factor", factor
        with suppress(KeyError, ValueError, ZeroDivisionError):
            yield "priority", repr(float(ad["Priority"]) / float(factor))
    for name in _AS_IT_IS:
        if name in ad:
            yield OF_CUSTOMERS[name.lower()], ad[name]


_AS_IT_IS: Final = ("WeightedAccumulatedUsage", "AccumulatedUsage", "BeginUsageTime", "LastUsageTime")
OF_SUBMITTERS: Final = ("Name", "LastUpdate", "Priority", "PriorityFactor", *_AS_IT_IS)
