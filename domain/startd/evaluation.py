"""Evaluate one slot's policy expressions at one instant, and tell what they read.

An expression is evaluated in the slot's ad, matched with the job that runs there, if any. For a job of the vanilla
universe the variant with _VANILLA counts, if there is one that has a value (the reference's rule).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from ..classad import ClassAd, Context, Expression
from ..classad.analysis import references_or_empty
from ..classad.evidence import constant_truth, integer, truth, values_read
from ..classad.tree import Literal
from ..events import Ad
from ..ports.sensor_readings import Sense
from ..state.caches import Caches, ad_of, expression
from ..state.cluster import UNIVERSE_VANILLA
from ..state.records import Slot, Starter
from ..state.state import ExecutionPoint
from .drain_estimates import DrainEstimates, drain_estimates
from .moment_attributes import SlotSnapshot
from .slot_ad import CompiledAd, ad_at, compiled_ad, drain_start, extend_ad, job_ad, job_as_ad, references
from .startd_settings import EXPRESSIONS

_DEFAULTS: Mapping[str, str] = {name.lower(): text for name, text in EXPRESSIONS.items()}


class EvaluatedExpression(Struct, frozen=True):
    """An expression that was asked, and its truth or whole number; None if it is neither."""

    name: str
    expression: Expression
    value: bool | int | None

    @property
    def words(self) -> str:
        """Return the value as the language writes it."""
        return "undefined" if self.value is None else str(self.value).lower()


class PolicyEvaluation:
    """One slot at one instant. It is void when the slot has moved."""

    def __init__(
        self,
        state: ExecutionPoint,
        slot: Slot,
        sense: Sense,
        now: int,
        context: Context,
        caches: Caches,
        *,
        estimating: bool = False,
    ) -> None:
        """:param estimating: it is asked for the estimates of a drain, which it does not have itself then"""
        self.caches, self._estimating = caches, estimating
        self.state, self.slot, self.sense, self.now, self.context = state, slot, sense, now, context
        self.verdict: EvaluatedExpression | None = None
        """The last expression that was asked."""
        self.matched: dict[frozenset[str], ClassAd] = {}
        """The slot's ad as matches see it, by what a job may read of it (``slot_policy.show_ad``)."""
        self._ad: ClassAd | None = None
        self._part: ClassAd | None = None
        self._has: frozenset[str] = frozenset()
        self._moment: SlotSnapshot | None = None
        self._estimates: DrainEstimates | None = None
        self._job: ClassAd | None = None
        self._job_known = False
        self._loose: frozenset[str] = frozenset()
        """The attributes of the job that the policy reads and that are expressions."""

    # Ads

    @cached_property
    def compiled(self) -> CompiledAd:
        return compiled_ad(self.state, self.slot, self.caches)

    def snapshot(self) -> SlotSnapshot:
        if self._moment is None:
            machine = self.state.machines.get(self.slot.machine)
            self._moment = SlotSnapshot(
                self.state, self.slot, machine, self.sense(self.slot.machine), self.now, self.context, self.caches,
                self.estimates,
            )  # fmt: skip
        return self._moment

    def estimates(self) -> DrainEstimates | None:
        """Return what a drain of the slot's machine would cost."""
        machine = self.state.machines.get(self.slot.machine)
        if machine is None or self._estimating:
            return None
        if self._estimates is None:
            self._estimates = drain_estimates(machine, self._to_estimate, self.now)
        return self._estimates

    def _to_estimate(self, slot: Slot) -> PolicyEvaluation:
        return PolicyEvaluation(self.state, slot, self.sense, self.now, self.context, self.caches, estimating=True)

    def beside(self, slot: Slot) -> PolicyEvaluation:
        """Return the same of another slot of the machine."""
        if slot is self.slot:
            return self
        return PolicyEvaluation(
            self.state, slot, self.sense, self.now, self.context, self.caches, estimating=self._estimating
        )

    @property
    def ad(self) -> ClassAd:
        """Return the slot's ad at the moment, with what its own expressions can read of it."""
        if self._ad is None:
            self._ad = ad_at(self.snapshot())
        return self._ad

    def ads_read_by(self, name: str) -> tuple[ClassAd, ClassAd | None]:
        """Return the slot's ad, with the attributes of the moment that the expression can read, and the job's, if it
        can."""
        found = references(self.compiled, name)
        if found is None or self._ad is not None or self.drain_start is not None:
            return self.ad, self.job
        job = self.job if found.foreign else None
        if job is not None and not self._loose.isdisjoint(found.foreign):
            return self.ad, job  # an expression of the job's may read anything of the slot
        if self._part is None:
            self._part, self._has = ad_at(self.snapshot(), only=found.names), found.names
        elif not found.names <= self._has:  # it grows by what is asked for
            extend_ad(self._part, self.snapshot(), found.names - self._has)
            self._has |= found.names
        return self._part, job

    @property
    def job(self) -> ClassAd | None:
        """Return the job's ad; None without a job, or if no expression of the slot's can read it."""
        if not self._job_known:
            self._job_known = True
            known = self.compiled
            if known.foreign or known.names is None or self.drain_start is not None:
                job = self._job = job_as_ad(self.state, self.slot, self.caches)
                if job is not None:
                    read = [name for name in known.foreign if name in job]
                    self._loose = frozenset(name for name in read if not isinstance(job[name], Literal))
        return self._job

    def matched_with(self, job: Ad) -> PolicyEvaluation:
        """Return the same slot matched with another job: that of a waiting match."""
        other = PolicyEvaluation(self.state, self.slot, self.sense, self.now, self.context, self.caches)
        other._ad, other._job, other._job_known = ad_at(self.snapshot(), whole=True), ad_of(job), True
        return other

    def whole_ads(self) -> tuple[ClassAd, ClassAd | None]:
        """Return the slot's ad with every attribute of the moment, and its job's, for the job's own expressions."""
        ad = job_ad(self.state, self.slot)
        return ad_at(self.snapshot(), whole=True), None if ad is None else ad_of(ad)

    # Truths and values

    def true(self, name: str) -> bool:
        return self.truth(name) is True

    def truth(self, name: str) -> bool | None:
        """Return True, False, or None for neither; the variant for the job's universe goes first."""
        if name in _VARIED and self._vanilla():
            found = self._truth(f"{name}_VANILLA")
            if found is not None:
                return found
        return self._truth(name)

    def _vanilla(self) -> bool:
        if not self.compiled.varied:
            return False
        ad = job_ad(self.state, self.slot)
        return ad is not None and ad.get("JobUniverse", UNIVERSE_VANILLA) == UNIVERSE_VANILLA

    def _truth(self, name: str) -> bool | None:
        asked = self.expression(name)
        if asked is None:
            return None
        found = (
            constant_truth(asked) if isinstance(asked, Literal) else truth(asked, *self.ads_read_by(name), self.context)
        )
        self.verdict = EvaluatedExpression(name, asked, found)
        return found

    def locally_false(self, name: str) -> bool:
        """Tell whether the expression is false whatever the job. One that still depends on the job when all that the
        slot itself says is known is not: ``TARGET.InteractiveJob =?= true`` is false without a job, and true of
        some."""
        asked = self.expression(name)
        if asked is None:
            return False
        found = constant_truth(asked) if isinstance(asked, Literal) else truth(asked, self.ad, None, self.context)
        if found is False and references_or_empty(asked.simplify(self.ad), self.ad).external:
            found = None
        self.verdict = EvaluatedExpression(name, asked, found)
        return found is False

    def start_accepts_job(self) -> bool:
        """Tell whether START, with every attribute of the moment, is true of the slot's job."""
        start = self.expression("Start")
        return start is not None and truth(start, *self.whole_ads(), self.context) is True

    @property
    def drain_start(self) -> Expression | None:
        """Return the drain's START while the machine drains, if the drain has one of its own."""
        return drain_start(self.state, self.slot)

    def expression(self, name: str) -> Expression | None:
        """Return the slot's expression, else the default's; None if there is neither."""
        if name == "Start" and self.drain_start is not None:
            return self.drain_start
        key = name.lower()
        text = self.slot.ad.text(key)  # it takes no compiled ad: whoever lists slots asks for this alone
        own = None if text is None else expression(text)
        if own is not None:
            return own
        default = _DEFAULTS.get(key)
        return None if default is None else expression(default)

    def number(self, name: str) -> int | None:
        """Return the value of an attribute as a whole number, as the reference's EvalInteger takes it; None if it is
        none."""
        asked = self.expression(name)
        if asked is None:
            return None
        mine, job = (None, None) if isinstance(asked, Literal) else self.ads_read_by(name)
        found = integer(asked, mine, job, self.context)
        self.verdict = EvaluatedExpression(name, asked, found)
        return found

    def job_has(self, name: str) -> bool:
        """Tell whether the job's ad has the attribute, whatever its value."""
        activation = self.slot.activation
        return activation is not None and bool(_text(self.state, activation, name))

    def job_number(self, name: str) -> int | None:
        """Return a job attribute, which may read the slot's, as a whole number; None if it has none."""
        activation = self.slot.activation
        text = None if activation is None else _text(self.state, activation, name)
        if not text:
            return None
        if text.isdecimal():
            return int(text)
        asked = expression(text)
        mine, job = self.whole_ads()
        return None if asked is None else integer(asked, job, mine, self.context)

    # Values read

    def read(self) -> dict[str, str]:
        """Return the values that the last asked expression read, as ``values_read`` does."""
        assert self.verdict is not None
        if isinstance(self.verdict.expression, Literal):
            return {}
        return values_read(self.verdict.expression, *self.ads_read_by(self.verdict.name), self.context)


_VARIED = frozenset({"WANT_SUSPEND", "SUSPEND", "CONTINUE", "PREEMPT", "WANT_VACATE", "KILL"})
"""The expressions that may have a variant for jobs of the vanilla universe."""


def _text(state: ExecutionPoint, starter: Starter, name: str) -> str:
    return state.job_ad((starter.cluster, starter.proc), starter.ad).value(name)
