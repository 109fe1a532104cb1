"""Evaluate a slot's policy expressions at a given time, and report what they read.

An expression is evaluated in the slot's ad, matched with the running job, if any. For vanilla universe jobs, the
variant with the suffix _VANILLA takes precedence if it is defined and has a value (HTCondor's rule).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial

from msgspec import Struct

from ..classad import ClassAd, Context, Expression, Moving, Poll, Value
from ..classad.analysis import references_or_empty
from ..classad.next_change import value_and_change
from ..classad.tree import Literal
from ..classad.value_evidence import integer_of, literal_truth, truth_of, values_read
from ..classad.values import truth as truth_value
from ..events import Ad
from ..ports.sensor_readings import Sense
from ..state.caches import Caches, ad_from_attributes, parse_cached
from ..state.cluster import UNIVERSE_VANILLA
from ..state.records import Slot, Starter
from ..state.state import ExecutionPoint
from .drain_estimates import DrainEstimates, drain_estimates
from .dynamic_attributes import SlotSnapshot, moving_attributes_of_machine
from .slot_ad import CompiledAd, compiled_ad, drain_start, extend_ad, job_ad, job_classad, names_read_by, snapshot_ad
from .startd_settings import EXPRESSIONS

_DEFAULTS: Mapping[str, str] = {name.lower(): text for name, text in EXPRESSIONS.items()}


class EvaluatedExpression(Struct, frozen=True):
    """A policy expression with its value: a boolean or an integer, or None if it is neither."""

    name: str
    expression: Expression
    value: bool | int | None

    @property
    def value_text(self) -> str:
        """Return the value in ClassAd syntax."""
        return "undefined" if self.value is None else str(self.value).lower()


class PolicyEvaluation:
    """The policy of one slot at one time. It becomes invalid at the slot's next transition."""

    last_evaluation: EvaluatedExpression | None = None
    changes: dict[str, int | Poll | None] | None = None
    """When the evaluated expressions may next change, by name, if that is computed with their values."""
    _ad: ClassAd | None = None
    _partial_ad: ClassAd | None = None
    _partial_names: frozenset[str] = frozenset()
    _snapshot: SlotSnapshot | None = None
    _estimates: DrainEstimates | None = None
    _job: ClassAd | None = None
    _job_was_read = False
    _computed_in_job: frozenset[str] = frozenset()
    """The job attributes that the policy reads and whose values are expressions."""

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
        """:param estimating: whether this evaluation is itself computing a drain estimate; it then must not read drain
        estimates"""
        self.caches, self._estimating = caches, estimating
        self.state, self.slot, self.sense, self.now, self.context = state, slot, sense, now, context

    # Ads

    @cached_property
    def match_ads(self) -> dict[frozenset[str], ClassAd]:
        """The slot's ad as a match reads it, by the attributes that the job may read (``show_ad``)."""
        return {}

    @cached_property
    def compiled(self) -> CompiledAd:
        return compiled_ad(self.state, self.slot, self.caches)

    def snapshot(self) -> SlotSnapshot:
        if self._snapshot is None:
            machine = self.state.machines.get(self.slot.machine)
            self._snapshot = SlotSnapshot(
                self.state, self.slot, machine, self.sense(self.slot.machine), self.now, self.context, self.caches,
                self.estimates,
            )  # fmt: skip
        return self._snapshot

    def estimates(self) -> DrainEstimates | None:
        """Return the drain estimates of the slot's machine."""
        machine = self.state.machines.get(self.slot.machine)
        if machine is None or self._estimating:
            return None
        if self._estimates is None:
            self._estimates = drain_estimates(machine, partial(self.for_slot, estimating=True), self.now)
        return self._estimates

    def for_slot(self, slot: Slot, *, estimating: bool = False) -> PolicyEvaluation:
        """Return the policy of a slot of the same machine at the same time."""
        estimating |= self._estimating
        if slot is self.slot and estimating == self._estimating:
            return self
        return PolicyEvaluation(
            self.state, slot, self.sense, self.now, self.context, self.caches, estimating=estimating
        )

    @property
    def ad(self) -> ClassAd:
        """Return the slot's ad, with the dynamic attributes that its own expressions can read."""
        if self._ad is None:
            self._ad = snapshot_ad(self.snapshot())
        return self._ad

    def ads_read_by(self, name: str) -> tuple[ClassAd, ClassAd | None]:
        """Return the slot's ad with the dynamic attributes that an expression can read, and the job's ad if it can read
        that."""
        readable = names_read_by(self.compiled.form, name)
        if readable is None or self._ad is not None or self.drain_start is not None:
            return self.ad, self.job
        job = self.job if readable.foreign else None
        if job is not None and not self._computed_in_job.isdisjoint(readable.foreign):
            return self.ad, job  # the job's expression may read any attribute of the slot
        if self._partial_ad is None:
            self._partial_ad, self._partial_names = snapshot_ad(self.snapshot(), only=readable.names), readable.names
        elif not readable.names <= self._partial_names:
            extend_ad(self._partial_ad, self.snapshot(), readable.names - self._partial_names)
            self._partial_names |= readable.names
        return self._partial_ad, job

    @property
    def job(self) -> ClassAd | None:
        """Return the job's ad, or None if there is no job or no expression of the slot can read its ad."""
        if not self._job_was_read:
            self._job_was_read = True
            compiled = self.compiled
            if compiled.form.foreign or compiled.form.names is None or self.drain_start is not None:
                job = self._job = job_classad(self.state, self.slot, self.caches)
                if job is not None:
                    read_names = [name for name in compiled.form.foreign if name in job]
                    self._computed_in_job = frozenset(name for name in read_names if not isinstance(job[name], Literal))
        return self._job

    def matched_with(self, job: Ad) -> PolicyEvaluation:
        """Return the same slot's policy, but matched with the job of a waiting claim."""
        evaluation = PolicyEvaluation(self.state, self.slot, self.sense, self.now, self.context, self.caches)
        evaluation._ad, evaluation._job = snapshot_ad(self.snapshot(), whole=True), ad_from_attributes(job)
        evaluation._job_was_read = True
        return evaluation

    def complete_ads(self) -> tuple[ClassAd, ClassAd | None]:
        """Return the slot's ad with all dynamic attributes, and the job's ad, to evaluate expressions of the job."""
        ad = job_ad(self.state, self.slot)
        return snapshot_ad(self.snapshot(), whole=True), None if ad is None else ad_from_attributes(ad)

    # Values of expressions

    def is_true(self, name: str) -> bool:
        return self.truth(name) is True

    def truth(self, name: str) -> bool | None:
        """Return True or False, or None if the value is neither. A variant for the job's universe takes precedence."""
        if name in _VARIED and self._job_is_vanilla:
            value = self._truth(f"{name}_VANILLA")
            if value is not None:
                return value
        return self._truth(name)

    @cached_property
    def _job_is_vanilla(self) -> bool:
        if not self.compiled.form.has_vanilla_variants:
            return False
        starter, claim = self.slot.activation, self.slot.claim
        if starter is not None:
            return (_job_attribute(self.state, starter, "JobUniverse") or UNIVERSE_VANILLA) == UNIVERSE_VANILLA
        ad = claim.ad if claim is not None and claim.holder else {}
        return bool(ad) and ad.get("JobUniverse", UNIVERSE_VANILLA) == UNIVERSE_VANILLA

    def _truth(self, name: str) -> bool | None:
        expression = self.expression(name)
        if expression is None:
            return None
        if isinstance(expression, Literal):
            value = literal_truth(expression)
        elif self.changes is None:
            value = truth_of(expression, *self.ads_read_by(name), self.context)
        else:
            value_now, self.changes[name] = self._value_and_change(name, expression)
            value = truth_value(value_now)
        self.last_evaluation = EvaluatedExpression(name, expression, value)
        return value

    def next_change(self, name: str) -> int | Poll | None:
        """Return when an expression's value may next change, in seconds (``classad.next_change``)."""
        expression = self.expression(name)
        if expression is None or isinstance(expression, Literal):
            return None
        if self.changes is not None and name in self.changes:
            return self.changes[name]
        return self._value_and_change(name, expression)[1]

    def _value_and_change(self, name: str, expression: Expression) -> tuple[Value, int | Poll | None]:
        return value_and_change(expression, *self.ads_read_by(name), self.context, self._moving)

    @cached_property
    def _moving(self) -> dict[str, Moving]:
        return moving_attributes_of_machine(self.snapshot())

    def is_locally_false(self, name: str) -> bool:
        """Return True if the expression is false for every job. ``TARGET.InteractiveJob =?= true`` does not qualify: it
        is false without a job, but true for some jobs."""
        expression = self.expression(name)
        if expression is None:
            return False
        value = (
            literal_truth(expression)
            if isinstance(expression, Literal)
            else truth_of(expression, self.ad, None, self.context)
        )
        if value is False and references_or_empty(expression.simplify(self.ad), self.ad).external:
            value = None
        self.last_evaluation = EvaluatedExpression(name, expression, value)
        return value is False

    def start_accepts_job(self) -> bool:
        """Return True if START, evaluated with all dynamic attributes, is true for the slot's job."""
        start = self.expression("Start")
        return start is not None and truth_of(start, *self.complete_ads(), self.context) is True

    @property
    def drain_start(self) -> Expression | None:
        """Return the drain's own START while the machine drains, if it has one."""
        return drain_start(self.state, self.slot)

    def expression(self, name: str) -> Expression | None:
        """Return the slot's expression, or else the default, or None if there is no default."""
        if name == "Start" and self.drain_start is not None:
            return self.drain_start
        key = name.lower()
        text = self.slot.ad.text(key)  # avoids compiling the ad, because slot listings read nothing else
        configured = None if text is None else parse_cached(text)
        if configured is not None:
            return configured
        default = _DEFAULTS.get(key)
        return None if default is None else parse_cached(default)

    def number(self, name: str) -> int | None:
        """Return an attribute's value as an integer (HTCondor's EvalInteger), or None if it is not a number."""
        expression = self.expression(name)
        if expression is None:
            return None
        slot_ad, job = (None, None) if isinstance(expression, Literal) else self.ads_read_by(name)
        value = integer_of(expression, slot_ad, job, self.context)
        self.last_evaluation = EvaluatedExpression(name, expression, value)
        return value

    def job_has(self, name: str) -> bool:
        """Return True if the job's ad has the attribute."""
        activation = self.slot.activation
        return activation is not None and bool(_job_attribute(self.state, activation, name))

    def job_number(self, name: str) -> int | None:
        """Return a job attribute, which may read the slot's ad, as an integer, or None if it is not a number."""
        activation = self.slot.activation
        text = None if activation is None else _job_attribute(self.state, activation, name)
        if not text:
            return None
        if text.isdecimal():
            return int(text)
        job_expression = parse_cached(text)
        slot_ad, job = self.complete_ads()
        return None if job_expression is None else integer_of(job_expression, job, slot_ad, self.context)

    # Values read

    def last_values_read(self) -> dict[str, str]:
        """Return the values that the last evaluated expression read, by name (``classad.evidence.values_read``)."""
        assert self.last_evaluation is not None
        if isinstance(self.last_evaluation.expression, Literal):
            return {}
        return values_read(self.last_evaluation.expression, *self.ads_read_by(self.last_evaluation.name), self.context)


_VARIED = frozenset({"WANT_SUSPEND", "SUSPEND", "CONTINUE", "PREEMPT", "WANT_VACATE", "KILL"})
"""The expressions that may have a variant for vanilla universe jobs."""


def _job_attribute(state: ExecutionPoint, starter: Starter, name: str) -> str:
    return state.job_ad((starter.cluster, starter.proc), starter.ad).value(name)
