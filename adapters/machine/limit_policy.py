"""Which of a slot's resources its job may not exceed: CGROUP_MEMORY_LIMIT_POLICY and STARTD_ENFORCE_DISK_LIMITS.

HTCondor lets cgroups and logical volumes enforce these limits; here the supervisor measures the processes and files.
By default, only dynamic slots have limits, because they have exactly what their jobs requested.
"""

from __future__ import annotations

from typing import Final

from attrs import frozen

from ...domain.classad import EvaluationError, Expression
from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.state.caches import ad_from_attributes
from .execution.activation import ResourceLimits

_HARD: Final = "hard"
_POLICY: Final = "CGROUP_MEMORY_LIMIT_POLICY"
_POLICIES: Final = (_HARD, "soft", "custom", "none")
_HARD_LIMIT: Final = "CGROUP_HARD_MEMORY_LIMIT_EXPR"


@frozen
class LimitPolicy:
    memory: str = _HARD  #: hard (dynamic slots are limited), custom; soft and none: no limit
    expression: Expression | None = None  #: the limit in MB of the policy custom
    disk: bool = False  #: whether the disk space of static slots is limited too

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> LimitPolicy:
        """Read the settings. Raise `ConfigError` if one is invalid."""
        memory = configuration.get(_POLICY).strip().lower() or _HARD
        if memory not in _POLICIES:
            raise configuration.error(_POLICY, f"{_POLICY}: {memory} is unknown; use {', '.join(_POLICIES)}")
        return cls(
            memory,
            configuration.expression(_HARD_LIMIT),
            configuration.boolean("STARTD_ENFORCE_DISK_LIMITS", False),
        )

    def limits(self, slot: Ad, job: Ad, memory: int, disk: int) -> ResourceLimits:
        """Return the limits of a job on a slot with this memory (MB) and disk space (KB)."""
        is_dynamic = slot.get("DynamicSlot") == "true"
        match self.memory:
            case "hard":
                limit = memory if is_dynamic else None
            case "custom":
                limit = self._custom_limit(slot, job)
            case _:
                limit = None
        return ResourceLimits(memory_mb=limit, disk_kb=disk if is_dynamic or self.disk else None)

    def _custom_limit(self, slot: Ad, job: Ad) -> int | None:
        """Return the limit that the expression gives, or None if it is not a positive number."""
        try:
            value = (
                self.expression.evaluate(ad_from_attributes(slot), ad_from_attributes(job)) if self.expression else None
            )
        except EvaluationError:
            return None
        return int(value) if isinstance(value, int | float) and value >= 1 else None
