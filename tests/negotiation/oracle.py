"""A slow negotiation cycle for comparison, written after the manual. It looks at one job and one slot at a time, by
scalar evaluation of complete ads. It uses lists and sorts, and caches nothing.

Sources: the manual, "Negotiation" and "The Layperson's Description of the Pie Spin and Pie Slice". Where they leave
something open, it follows HTCondor's negotiator.
"""

from __future__ import annotations

import math
import struct
from collections import Counter
from typing import Any

from attrs import define, field

from poolbook.domain.classad import ClassAd, Context, EvaluationError, Expression, parse, symmetric_match
from poolbook.domain.classad.matching import is_satisfied, requirements_met
from poolbook.domain.names import dynamic_name
from poolbook.domain.negotiator.accounting import ceiling, floor, priority_at, priority_factor
from poolbook.domain.negotiator.groups.group_tree import GroupNode
from poolbook.domain.negotiator.groups.quotas import assign_quotas
from poolbook.domain.negotiator.groups.rounds import GroupRounds
from poolbook.domain.negotiator.negotiator_settings import NegotiatorSettings, parse_settings
from poolbook.domain.ports.sensor_readings import NOTHING_READ, Readings
from poolbook.domain.requests.autoclusters import autoclusters_of
from poolbook.domain.startd.dynamic_attributes import DYNAMIC_ATTRIBUTES, SlotSnapshot
from poolbook.domain.startd.evaluation import PolicyEvaluation
from poolbook.domain.startd.public_ad import is_published
from poolbook.domain.startd.slot_ad import compiled_ad, drain_start, snapshot_ad
from poolbook.domain.startd.slot_resources import SlotCarver, remaining_resources, slot_carver
from poolbook.domain.startd.time_limits import drain_left, retirement_left
from poolbook.domain.state.accounting_groups import group_of
from poolbook.domain.state.caches import Caches, ad_from_attributes
from poolbook.domain.state.cluster import IDLE
from poolbook.domain.state.records import Slot, Submitter
from poolbook.domain.state.state import State

WORST = -1.7976931348623157e308
NO_PREEMPTION, RANK, PRIORITY = "", "rank", "priority"
PREFERS, NO_WORSE = parse("MY.Rank > MY.CurrentRank"), parse("MY.Rank >= MY.CurrentRank")
SLACK = 1e-9


@define
class Offer:
    """A slot that is offered: ``free`` for a match without preemption, or ``held`` by ``user``."""

    slot: Slot
    place: int
    ad: ClassAd
    free: bool
    held: bool
    user: str
    weight: float
    carver: SlotCarver | None = None
    left: dict[str, float] = field(factory=dict)
    cuts: int = 0


@define
class Job:
    cluster: int
    proc: int
    ad: ClassAd
    order: tuple[float, ...]
    kind: object

    @property
    def id(self) -> str:
        return f"{self.cluster}.{self.proc}"


@define
class User:
    name: str
    real: float
    priority: float
    using: float
    floor: float
    ceiling: float
    jobs: list[Job] = field(factory=list)
    idle: int = 0
    starvation: float = 0.0


@define
class ExpectedMatch:
    """A match with the fields of ``events.Match``."""

    job: str
    slot: str
    rank: float
    reason: str
    pre: float
    post: float
    preemption: float
    submitter: str
    cores: float


@define
class Rejected:
    """A job that got no slot: how many slots the negotiator has, how many the job accepts, and how many accept it."""

    slots: int
    accepted: int
    both: int


@define
class Spin:
    """What one submitter may get in one spin, and what it got."""

    limit: float
    unclaimed: float
    room: float
    of_group: float = math.inf
    got: float = 0.0
    fresh: float = 0.0
    short: bool = False


class Negotiation:
    """One cycle. Its results are ``matches`` and ``left`` (the jobs that got no slot, by submitter)."""

    def __init__(self, state: State, now: int, context: Context) -> None:
        self.state, self.now, self.context = state, now, context
        self.rules: NegotiatorSettings = parse_settings(state.settings)
        self.users: dict[str, User] = {}
        self.offers = [self._offer(slot, place) for place, slot in enumerate(state.slots.values())]
        self.names, self.matches = set(state.slots), list[ExpectedMatch]()
        limited = self.rules.match_limits and state.dialect.limits_matches_of_submitters
        self.most = self.rules.most_matches if limited else math.inf
        self._got: Counter[str] = Counter()
        self.total = sum(round(1000 * offer.weight) for offer in self.offers if self._is_in_pie(offer)) / 1000
        own_weights = [offer.weight for offer in self.offers if self._is_offered(offer)]
        self.lightest = min(own_weights, default=math.inf) - SLACK
        for offer in self.offers:
            if not self._is_offered(offer):
                offer.free = offer.held = False
        self._collect_jobs()
        self._count_groups()
        self._publish()
        counted = [offer for offer in self.offers if offer.slot.kind != "dynamic" and self._is_offered(offer)]
        self._begun = [ClassAd(dict(offer.ad.items())) for offer in counted]

    # Slots, jobs and submitters

    def _offer(self, slot: Slot, place: int) -> Offer:
        state, machine = self.state, self.state.machines.get(slot.machine)
        readings = Readings(slots={slot.name: slot.published_ad}) if slot.published_ad else NOTHING_READ
        slot_ad = snapshot_ad(
            SlotSnapshot(
                state, slot, machine, readings, self.now, self.context, Caches(), self._read_sensors(slot).estimates
            ),
            whole=True,
        )
        ad = ClassAd(
            {name: value for name, value in slot_ad.items() if is_published(name) or name.lower() in DYNAMIC_ATTRIBUTES}
        )
        drained = machine is not None and machine.drain is not None
        closed = machine is not None and (bool(machine.shutdown) or (drained and drain_start(state, slot) is None))
        if closed or slot.queued_claim is not None or slot.state in ("Matched", "Preempting"):
            ad["Requirements"] = False
        claim, is_matched = slot.claim, slot.name in state.matches
        held = claim is not None and not is_matched and slot.queued_claim is None and slot.state == "Claimed"
        if not state.dialect.preempts_idle_claims and slot.activity == "Idle":
            held = False
        if not self.rules.consider_preemption:
            held = False
        if held and not self.rules.consider_early_preemption and retirement_left(self._read_sensors(slot)) > 0:
            held = False
        free = claim is None and not is_matched and self._takes_claims(slot)
        offer = Offer(slot, place, ad, free, held, "" if claim is None else claim.submitter, self._weight(ad))
        if slot.kind == "partitionable":
            offer.carver = slot_carver(state, machine, slot, compiled_ad(state, slot, Caches()).ad, self.context)
            offer.left = remaining_resources(slot.ad)
        return offer

    def _read_sensors(self, slot: Slot) -> PolicyEvaluation:
        def sense(machine: str) -> Readings:
            slots = self.state.machines[machine].slots if machine in self.state.machines else {}
            return Readings(slots={name: slot.published_ad for name, slot in slots.items()})

        return PolicyEvaluation(self.state, slot, sense, self.now, self.context, Caches())

    def _takes_claims(self, slot: Slot) -> bool:
        machine = self.state.machines.get(slot.machine)
        willing = bool(self.state.dialect.steps("claim", slot.state_activity)) and slot.state_activity != "Matched/Idle"
        if machine is None or (machine.drain is None and not machine.shutdown):
            return willing
        if machine.shutdown or machine.drain is None or not machine.drain.start or machine.drain.final:
            return False
        if slot.state_activity != "Drained/Retiring" or not (slot.kind == "partitionable" or willing):
            return False
        return drain_left(self._read_sensors(slot)) > 0

    def _weight(self, ad: ClassAd) -> float:
        if not self.rules.use_slot_weights:
            return 1.0
        value = self._number(parse("SlotWeight" if "SlotWeight" in ad else "Cpus"), ad, ClassAd())
        return round(value * 1000) / 1000 if math.isfinite(value) and value >= 0 else 1.0

    def _is_offered(self, offer: Offer) -> bool:
        constraint = self.rules.slot_constraint
        return constraint is None or self._true(constraint, offer.ad, ClassAd())

    def _is_in_pie(self, offer: Offer) -> bool:
        constraint = self.rules.poolsize_constraint
        return self._is_offered(offer) and (constraint is None or self._true(constraint, offer.ad, ClassAd()))

    def _collect_jobs(self) -> None:
        state, autoclusters = self.state, autoclusters_of(self.state, Caches())
        for cluster in state.clusters.values():
            if cluster.is_local:
                continue
            if cluster.status_counts[IDLE]:
                self._user(cluster.submitter).idle += cluster.status_counts[IDLE]
            for proc in cluster.procs(lambda status: status == IDLE):
                if (cluster.id, proc) in state.by_job or (cluster.id, proc) in state.assigned_slots:
                    continue
                ad = ad_from_attributes(cluster.attributes(proc))
                if self.rules.job_constraint is not None and not self._true(self.rules.job_constraint, ad, ClassAd()):
                    continue
                order = (*(_sort_key(ad, name) for name in ORDER), cluster.id, proc)
                kind = autoclusters.signature(cluster, proc)
                self._user(cluster.submitter).jobs.append(Job(cluster.id, proc, ad, order, kind))
        for user in self.users.values():
            user.jobs.sort(key=lambda job: job.order)

    def _user(self, name: str) -> User:
        if name not in self.users:
            state, now, terms = self.state, self.now, self.rules.accounting
            record = state.submitters.get(name) or Submitter(name, updated=now, counted_until=now)
            real, user_ceiling = (
                priority_at(record, state.priorities_updated_at, now, terms.halflife),
                ceiling(record, now),
            )
            self.users[name] = User(
                name,
                real,
                real * priority_factor(record, terms, now),
                record.weighted_in_use / 1000 if self.rules.use_slot_weights else record.slots,
                floor(record, now),
                math.inf if user_ceiling < 0 else user_ceiling,
            )
        return self.users[name]

    # The attributes that ads have about submitters

    def _publish(self) -> None:
        for offer in self.offers:
            if offer.user:
                for name, value in self._user_attributes("Remote", offer.user).items():
                    offer.ad[name] = value
        if self.rules.cross_slot_prios:
            for offer in self.offers:
                for other in self.offers:
                    if other.user and other.slot.kind != "dynamic" and other.slot.machine == offer.slot.machine:
                        prefix = f"slot{other.slot.ad.get('SlotID', '')}_"
                        for name, value in self._user_attributes("Remote", other.user).items():
                            offer.ad[prefix + name] = value

    def _user_attributes(self, whose: str, name: str) -> dict[str, Any]:
        user = self._user(name)
        attributes: dict[str, Any] = {
            f"{whose}UserPrio": user.priority,
            f"{whose}UserResourcesInUse": user.using,
            f"{whose}NegotiatingGroup": self._group(name).name,
            f"{whose}Autoregroup": False,
        }
        if whose == "Submitter":
            attributes["SubmittorPrio"] = user.priority
        if len(self.groups) > 1:
            group = self._group(name)
            attributes[f"{whose}Group"] = group.name
            attributes[f"{whose}GroupResourcesInUse"] = group.usage
            attributes[f"{whose}GroupQuota"] = group.quota
        return attributes

    def _group(self, name: str) -> GroupNode:
        group = group_of(name).lower()
        while group:
            for node in self.groups:
                if node.name.lower() == group:
                    return node
            group = group.rpartition(".")[0]
        return self.groups[0]

    def _count_groups(self) -> None:
        """Sum up the resources of each group and the requests of its jobs, in the order of additions that the code
        uses."""
        self.groups = self.rules.tree.new_nodes()
        for name, record in self.state.submitters.items():
            node = self._group(name)
            node.add_usage(record.weighted_in_use if self.rules.use_slot_weights else 1000 * record.slots)
            node.add_usage(round(1000 * self._promised(self._user(name))))
            node.demand += record.weighted_in_use / 1000
        for cluster in self.state.clusters.values():
            for proc in () if cluster.is_local else cluster.procs(lambda status: status == IDLE):
                reserved_slot = self.state.assigned_slots.get((cluster.id, proc))
                if reserved_slot not in self.state.ready_claims:
                    request = self._number(
                        parse("RequestCpus"), ad_from_attributes(cluster.attributes(proc)), ClassAd()
                    )
                    self._group(cluster.submitter).demand += 1.0 if math.isnan(request) else request
        oversubscribe = self.rules.quotas.oversubscribe
        assign_quotas(
            self.groups[0],
            self.total,
            self.state.dialect.oversubscribes_quotas if oversubscribe is None else oversubscribe,
        )

    # The pie

    def run(self) -> Negotiation:
        taking = [user for user in self.users.values() if user.idle]
        if self.rules.consider_preemption:
            all_users = [self._user(name) for name, record in self.state.submitters.items() if record.slots]
            taking += [user for user in all_users if user not in taking]
        if len(self.groups) == 1:
            self._share_out(taking, None, math.inf)
            return self
        members = {node.number: [user for user in taking if self._group(user.name) is node] for node in self.groups}

        def serve(node: GroupNode, cores: float) -> None:
            members[node.number] = self._share_out(members[node.number], node, cores)

        rules = self.rules
        GroupRounds(
            self.groups, rules.quotas, self.total, rules.use_slot_weights, rules.consider_preemption,
            self.state.dialect, self.context, serve, lambda node: None,
            lambda: not any(offer.free or offer.held for offer in self.offers), lambda node: bool(members[node.number]),
        ).run()  # fmt: skip
        return self

    def _share_out(self, taking: list[User], group: GroupNode | None, most: float) -> list[User]:
        below = [user for user in taking if user.idle and user.using < user.floor]
        self._spin_pie(below, True, group, most)
        return self._spin_pie(taking, False, group, most)

    def _spin_pie(self, taking: list[User], floors: bool, group: GroupNode | None, most: float) -> list[User]:
        spin, total = 0, min(self.total, most)

        def spent() -> bool:
            late = spin > 1 or not self.rules.consider_preemption
            return late and group is not None and group.usage >= most

        while taking:
            spin += 1
            if spent():
                return taking
            room = math.inf if group is None else max(0.0, most - group.usage)
            worst = max(user.priority for user in taking)
            normal = math.fsum(worst / user.priority for user in taking)

            def slice_of(user: User, worst: float = worst, normal: float = normal) -> float:
                if self.rules.ignore_user_priorities:
                    return 1e300
                return max(0.0, worst / (user.priority * normal) * total - user.using)

            def bounded(slice_share: float, room: float = room) -> float:
                return slice_share if self.rules.consider_preemption else min(slice_share, room)

            pie = math.fsum(bounded(slice_of(user)) for user in taking)
            if pie <= 0 and not self.rules.consider_preemption:
                return taking
            if spin == 1:
                for user in taking:
                    resources_used = user.using + bounded(slice_of(user))
                    user.starvation = user.using / resources_used if resources_used > 0 else math.inf
                taking = sorted(taking, key=lambda user: (user.priority, user.starvation, user.name))
            before, remaining_submitters = pie, []
            for place, user in enumerate(taking):
                if spent():
                    remaining_submitters += taking[place:]
                    break
                slice_size = slice_of(user)
                if floors:
                    slice_size = min(slice_size, user.floor - user.using)
                strict = group is not None and not self.state.dialect.relaxes_group_quotas
                own_room = max(0.0, most - group.usage) if strict and group is not None else math.inf
                is_done, matched_weight = self._negotiate(
                    user, min(bounded(slice_size), pie), min(slice_size, room), spin, own_room
                )
                pie -= matched_weight
                if not is_done:
                    remaining_submitters.append(user)
            progress = pie < before or len(remaining_submitters) < len(taking)
            taking = remaining_submitters
            if floors or not progress or not any(offer.free or offer.held for offer in self.offers):
                return taking
        return taking

    def _negotiate(self, user: User, limit: float, unclaimed: float, spin: int, of_group: float) -> tuple[bool, float]:
        if not user.idle:
            return True, 0.0
        if spin > 1 and limit < self.lightest:
            return False, 0.0
        room = user.ceiling - user.using - self._promised(user)
        if room <= 0 or room < self.lightest:
            return True, 0.0
        slice_spin, rejected = Spin(limit, unclaimed, room, of_group), set[object]()
        for job in list(user.jobs):
            over = slice_spin.got >= slice_spin.limit
            if over and not (spin == 1 and self.rules.consider_preemption):
                return False, slice_spin.got
            if slice_spin.got >= slice_spin.room:
                return False, slice_spin.got
            if self._got[user.name] >= self.most:
                break
            if job.kind in rejected and not self.rules.all_jobs:
                continue
            if not self._match(user, job, slice_spin, only_rank=over):
                rejected.add(job.kind)
        return not (slice_spin.short or slice_spin.got >= slice_spin.limit), slice_spin.got

    def _promised(self, user: User) -> float:
        """Return the resources that were given to the submitter and that it does not use yet."""
        state, total_weight = self.state, 0.0
        for (number, _), name in state.assigned_slots.items():
            if state.clusters[number].submitter == user.name and name not in state.ready_claims:
                total_weight += sum(offer.weight for offer in self.offers if offer.slot.name == name)
        return total_weight

    # One job

    def _match(self, user: User, job: Job, group_spin: Spin, only_rank: bool) -> bool:
        if not (self.rules.preemption_requirements_stable and self.rules.preemption_rank_stable):
            self._publish()
        ad = ClassAd(self._user_attributes("Submitter", user.name), job.ad)
        short, best = False, None
        for offer in self.offers:
            if not (offer.free or offer.held) or (offer.free and only_rank):
                continue
            parts = None
            if offer.carver is not None and offer.free:
                parts = offer.carver.amounts_for(job.ad, offer.left)
                if parts is None:
                    continue
            if not symmetric_match(ad, offer.ad, self.context):
                continue
            reason = self._preemption_reason(user, ad, offer)
            if reason is None or (only_rank and reason != RANK):
                continue
            cores = offer.weight if parts is None else self._weight_of_part(offer, parts)
            if group_spin.got + cores > group_spin.room + SLACK:
                continue
            if cores > group_spin.of_group + SLACK and not self._swaps(user, offer, reason):
                short = True
                continue
            used, most = (
                (group_spin.fresh, group_spin.unclaimed)
                if reason == NO_PREEMPTION
                else (group_spin.got, group_spin.limit)
            )
            if reason != RANK and used + cores > most + SLACK and not used <= 0 < most:
                short = True
                continue
            ranks = self._ranks(ad, offer, reason)
            key = (*(-rank for rank in ranks), offer.place)
            if best is None or key < best[0]:
                best = key, offer, reason, ranks, parts, cores
        if best is None:
            group_spin.short = group_spin.short or short or only_rank
            return False
        _, offer, reason, ranks, parts, cores = best
        self._take(user, job, offer, reason, ranks, parts, cores)
        group_spin.got += cores
        group_spin.fresh += cores if reason == NO_PREEMPTION else 0.0
        group_spin.of_group -= 0.0 if self._swaps(user, offer, reason) else cores
        return True

    def _swaps(self, user: User, offer: Offer, reason: str) -> bool:
        return reason != NO_PREEMPTION and self._group(offer.user) is self._group(user.name)

    def _preemption_reason(self, user: User, job: ClassAd, offer: Offer) -> str | None:
        """Return why the job may have the slot; None if it may not."""
        if offer.free:
            return NO_PREEMPTION
        if self._true(PREFERS, offer.ad, job):
            return RANK
        if offer.user == user.name:
            return None
        if self.state.dialect.preempts_only_worse_priorities and self._user(offer.user).priority <= user.priority:
            return None
        requirements = self.rules.preemption_requirements
        if requirements is not None and not self._true(requirements, offer.ad, job):
            return None
        return PRIORITY if self._true(NO_WORSE, offer.ad, job) else None

    def _ranks(self, job: ClassAd, offer: Offer, reason: str) -> tuple[float, float, float, float, float]:
        """Return PRE_JOB_RANK, Rank, POST_JOB_RANK, the reason and PREEMPTION_RANK."""
        rules, ad = self.rules, offer.ad
        rank = self._number(job["Rank"], job, ad) if "Rank" in job else 0.0
        rank = 0.0 if math.isnan(rank) else min(max(rank, WORST), -WORST)
        last = WORST if reason == NO_PREEMPTION else self._single(rules.preemption_rank, ad, job)
        category_rank = {NO_PREEMPTION: 2.0, RANK: 1.0, PRIORITY: 0.0}[reason]
        pre, post = (self._single(rule, ad, job) for rule in (rules.pre_job_rank, rules.post_job_rank))
        return pre, rank, post, category_rank, last

    def _weight_of_part(self, offer: Offer, parts: dict[str, int]) -> float:
        if not self.rules.use_slot_weights:
            return 1.0
        return self._weight(ClassAd({name: int(amount) for name, amount in parts.items()}, offer.ad))

    def _take(
        self, user: User, job: Job, offer: Offer, reason: str, ranks: tuple[float, ...],
        parts: dict[str, int] | None, cores: float,
    ) -> None:  # fmt: skip
        name = offer.slot.name
        pre, rank, post, _, last = ranks
        if parts is not None:
            if self.state.dialect.informs_startd_of_matches:  # otherwise the slot is carved when it is claimed
                name = dynamic_name(name, self.names)
                self.names.add(name)
            offer.cuts += 1
            for key, amount in parts.items():
                offer.left[key] -= amount
                offer.ad[key] = int(offer.left[key])
        else:
            offer.free = offer.held = False
        user.jobs.remove(job)
        self._got[user.name] += 1
        user.using += cores
        self._group(user.name).add_usage(round(1000 * cores))
        if reason != NO_PREEMPTION and offer.slot.claim is not None:
            before = self._user(offer.user)
            self._group(offer.user).add_usage(-round(1000 * min(cores, before.using)))
            before.using = max(0.0, before.using - cores)
        rules = self.rules
        pre = 0.0 if rules.pre_job_rank is None else pre  # the reported value without an expression
        post = 0.0 if rules.post_job_rank is None else post
        last = 0.0 if rules.preemption_rank is None or not reason else last
        self.matches.append(ExpectedMatch(job.id, name, rank, reason, pre, post, last, user.name, cores))

    # Questions about single jobs

    def is_accepted(self, user: User, job: Job, offer: Offer) -> tuple[object, ...]:
        """Return True if job and slot accept each other."""
        ad = ClassAd(self._user_attributes("Submitter", user.name), job.ad)
        ranks = self._ranks(ad, offer, RANK) if symmetric_match(ad, offer.ad, self.context) else None
        parts = None if offer.carver is None or ranks is None else offer.carver.amounts_for(job.ad, offer.left)
        return ranks, ranks and self._true(PREFERS, offer.ad, ad), parts

    def rejection(self, user: str, job: Job) -> Rejected:
        """Return how many of the negotiator's slots (dynamic slots do not count) reject the job, as of the cycle's
        start."""
        ad = ClassAd(self._user_attributes("Submitter", user), job.ad)
        accepted = [offer for offer in self._begun if requirements_met(ad, offer, self.context)]
        both = sum(requirements_met(offer, ad, self.context) for offer in accepted)
        return Rejected(len(self._begun), len(accepted), both)

    # Evaluation

    def _number(self, expression: Expression, my: ClassAd, target: ClassAd) -> float:
        try:
            value = expression.evaluate(my, target, self.context)
        except EvaluationError:
            return math.nan
        return float(value) if isinstance(value, int | float) else math.nan

    def _true(self, expression: Expression, my: ClassAd, target: ClassAd) -> bool:
        try:
            return is_satisfied(expression.evaluate(my, target, self.context))
        except EvaluationError:
            return False

    def _single(self, expression: Expression | None, my: ClassAd, target: ClassAd) -> float:
        """Round to single precision, as the negotiator does. A value that is not a number becomes the worst rank."""
        value = math.nan if expression is None else self._number(expression, my, target)
        if math.isnan(value):
            return WORST
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
        return min(max(value, WORST), -WORST)


ORDER = ("PreJobPrio1", "PreJobPrio2", "JobPrio", "PostJobPrio1", "PostJobPrio2")


def _sort_key(job: ClassAd, name: str) -> float:
    """Return the sort key of a job: higher values first, missing values last."""
    value = job[name].evaluate(job, None) if name in job else None
    if isinstance(value, int) and not isinstance(value, bool):
        return -float(value)
    return 0.0 if name == "JobPrio" else math.inf
