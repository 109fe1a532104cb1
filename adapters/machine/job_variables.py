"""The variables that the starter adds to a job's environment, from the machine's configuration and the slot's ad.

Source: the starter's PublishToEnv and SetEnvironmentForAssignedRes (starter.cpp, 25.14), and the settings they read.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Final

from attrs import field, frozen

from ...domain.classad import EvaluationError, parse
from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.settings_classes import setting
from ...domain.state.caches import ad_from_attributes
from ...domain.state.job_ad import unquoted
from .execution.activation import CPU_COUNTS

COUNTS: Final = "STARTER_NUM_THREADS_ENV_VARS"
INHERITS: Final = "JOB_INHERITS_STARTER_ENVIRONMENT"
_NAMES: Final = "ENVIRONMENT_FOR_Assigned"
_NONE: Final = "ENVIRONMENT_VALUE_FOR_UnAssigned"
_DIGITS: Final = frozenset({"CUDA_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"})
"""Variables that contain the numbers of the assigned devices, unless a pattern converts the devices' names."""
_UUIDS: Final = 'join(",", evalInEachContext({}, AvailableGPUs))'
"""The names that NVIDIA's programs use for devices; a MIG instance already has its full name."""


@frozen
class JobVariables:
    counts: tuple[str, ...] = CPU_COUNTS
    """STARTER_NUM_THREADS_ENV_VARS: variables set to the number of cores unless the job sets them."""
    chirps: str = field(default="Chirp*", metadata=setting("CHIRP_DELAYED_UPDATE_PREFIX", str))
    home: bool = field(default=True, metadata=setting("STARTER_SETS_HOME_ENV", bool))
    inherits: Mapping[str, str] = field(factory=dict)  #: the variables of this process that jobs inherit
    assigned: Mapping[str, tuple[str, str]] = field(factory=dict)
    """By custom resource name in lower case: ENVIRONMENT_FOR_Assigned<name>, and the value if no device is assigned."""
    nvidia: bool = field(default=True, metadata=setting("AUTO_SET_NVIDIA_VISIBLE_DEVICES", bool))

    @classmethod
    def from_configuration(cls, configuration: Configuration) -> JobVariables:
        get = configuration.get
        setting_names = configuration.all_names()
        resources = {name[len(_NAMES) :] for name in setting_names if name.lower().startswith(_NAMES.lower())}
        return cls(
            **configuration.field_values(cls),
            counts=tuple(get(COUNTS).replace(",", " ").split()),
            inherits=_inherited_variables(get(INHERITS), os.environ),
            assigned={
                kind.lower(): (get(_NAMES + kind), get(_NONE + kind)) for kind in resources if get(_NAMES + kind)
            },
        )

    def variables_of_slot(self, slot: Ad) -> dict[str, str]:
        """Return the variables that override a job's own on a slot: the assigned devices of each custom resource."""
        variables = {"_CHIRP_DELAYED_UPDATE_PREFIX": self.chirps}
        resources = unquoted(slot.get("MachineResources", "")).split()
        lower_ad = {name.lower(): text for name, text in slot.items()} if len(resources) > _STANDARD else {}
        for name in resources:
            assigned_things = lower_ad.get(f"assigned{name.lower()}")
            names, no_devices = self.assigned.get(name.lower(), ("", ""))
            if assigned_things is None and not (names and name.lower() in lower_ad):
                continue
            ids = unquoted(assigned_things) if assigned_things is not None else no_devices
            variables |= dict(variables_of(names, ids))
            variables[f"_CONDOR_Assigned{name}"] = ids
        if self.nvidia and "gpus" in (name.lower() for name in resources):
            variables |= _device_variables(slot)
        return variables


_STANDARD: Final = 3  #: the resources that every machine has, and at most one more without assigned devices


def _device_variables(slot: Ad) -> dict[str, str]:
    if "availablegpus" not in map(str.lower, slot):
        return _NO_DEVICES
    first_id = _text(slot, "AvailableGPUs[0].Id")
    names = _text(slot, _UUIDS.format("DeviceUuid" if first_id.startswith("MIG-") else 'strcat("GPU-", DeviceUuid)'))
    return dict.fromkeys(("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), names) if names else _NO_DEVICES


_NO_DEVICES: Final = {"NVIDIA_VISIBLE_DEVICES": "none"}


def _text(ad: Ad, expression: str) -> str:
    try:
        value = parse(expression).evaluate(ad_from_attributes(ad))
    except EvaluationError:
        return ""
    return value if isinstance(value, str) else ""


def variables_of(text: str, ids: str) -> Iterator[tuple[str, str]]:
    """Yield the variables that ENVIRONMENT_FOR_Assigned<name> computes from ids: ``NAME=/PATTERN/REPLACEMENT/`` for
    each variable. A name alone is accepted only at the end. Like HTCondor, stop at any other text."""
    while text := text.lstrip():
        name, equals, rest_text = text.partition("=")
        if not equals:
            yield name, _device_numbers(ids) if name in _DIGITS else ids
            return
        rest_text = rest_text.lstrip()
        parts = rest_text[1:].split(rest_text[:1], 2) if rest_text else []
        if len(parts) != 3:
            return
        pattern, replacement, text = parts
        text = text.removeprefix(",")
        try:
            regex = re.compile(pattern)
        except re.error:
            return
        is_plain = name == "CUDA_VISIBLE_DEVICES" and not pattern
        device_ids = ids.replace(",", " ").split()
        yield (
            name,
            _device_numbers(ids) if is_plain else ",".join(_replace_first(regex, replacement, id) for id in device_ids),
        )


def _device_numbers(ids: str) -> str:
    return "".join(letter for letter in ids if letter.isdigit() or letter == ",")


def _replace_first(pattern: re.Pattern[str], replacement: str, text: str) -> str:
    """Replace the first match; ``$1`` is a group."""
    match = pattern.search(text)
    if match is None:
        return text
    groups = {str(number): group or "" for number, group in enumerate((match[0], *match.groups()))}
    new = re.sub(r"\$(\d)", lambda at: groups.get(at[1], ""), replacement)
    return f"{text[: match.start()]}{new}{text[match.end() :]}"


def _inherited_variables(text: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that jobs inherit by JOB_INHERITS_STARTER_ENVIRONMENT: all, none, or the ones that match its
    patterns but no pattern after a ``!``."""
    if text.strip().lower() in _BOOLEANS:
        return dict(variables) if _BOOLEANS[text.strip().lower()] else {}
    patterns = re.split(r"[,;\s]+", text.lower())
    refused_patterns = [pattern[1:] for pattern in patterns if pattern.startswith("!")]
    allowed_patterns = [pattern for pattern in patterns if pattern and not pattern.startswith("!")] or ["*"]
    return {
        name: value
        for name, value in variables.items()
        if _matches_any(name, allowed_patterns) and not _matches_any(name, refused_patterns) and "\n" not in value
    }


_BOOLEANS: Final = dict.fromkeys(("", "false", "f", "0"), False) | dict.fromkeys(("true", "t", "1"), True)


def _matches_any(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name.lower(), pattern) for pattern in patterns)
