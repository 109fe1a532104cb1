"""Round the numbers in jobs' ads, so that similar jobs have the same requirements (SCHEDD_ROUND_ATTR_<name>).

A rule is a percentage of a number's order of magnitude, or a number of decimal digits. The exact number is in NAME_RAW.
The sizes of a running job are exact, because its policies read them, like HTCondor's shadow. They are rounded when the
run ends, for the negotiator.

Source: the manual's page "Configuration Macros"; SetAttribute (qmgmt.cpp) of HTCondor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

from ..classad.old_form import literal_value
from ..events import Ad
from ..ports.stimuli import ActivationEnded, ActivationMeasured
from ..state.cluster import Cluster
from ..state.job_ad import parse_int
from ..state.pool_settings import ROUNDING
from ..state.records import Activation
from ..state.state import AccessPoint

Columns = Mapping[str, Sequence[str]]
Rules = Mapping[str, str]
"""By lower-case attribute: the text of its setting."""
EXACT = "_RAW"
"""The suffix of the attribute with the exact number."""
_NEGLIGIBLE = 0.000001
_LARGEST = 2**63  #: ClassAd integers are smaller


def rounding_rules(state: AccessPoint) -> Rules:
    """Return the rules in force."""
    settings = (*state.dialect.setting_defaults.items(), *state.settings.items())
    return _parse_rules(tuple([setting for setting in settings if ROUNDING in setting[0]]))


@lru_cache(maxsize=8)
def _parse_rules(settings: tuple[tuple[str, str], ...]) -> Rules:
    rules = {name.removeprefix(ROUNDING).lower(): text.strip() for name, text in settings}
    return {name: text for name, text in rules.items() if text not in ("", "0")}


def rounded(text: str, rule: str) -> str:
    """Return the number in an expression's text, rounded up, or an empty string if the text is not a number."""
    digits = text.strip().removeprefix("-")
    value = literal_value(digits)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return ""
    value = -value if text.strip().startswith("-") else value
    percent, result = float(rule.removesuffix("%")), 0.0
    if not rule.endswith("%"):
        base = 10 ** int(rule)
        above = int(value) + base - 1
        result = abs(above) // base * (base if above > 0 else -base)
    elif abs(value) >= _NEGLIGIBLE and percent >= _NEGLIGIBLE:
        magnitude = int(math.log(abs(value / 5)) / math.log(10) + 1)
        unit = math.pow(10, magnitude) * percent / 100
        result = math.ceil(value / unit) * unit
    else:
        return text
    if not abs(result) < (_LARGEST if isinstance(value, int) else math.inf):
        return text
    return str(int(result)) if isinstance(value, int) else repr(round(float(result), 6))


def with_rounding(rules: Rules, changes: Ad) -> Ad:
    """Return changes to a job's ad, with rounded numbers and their exact values."""
    result: Ad = {}
    for name, text in changes.items():
        number = rounded(text, rules[name.lower()]) if name.lower() in rules else ""
        result |= {f"{name}{EXACT}": text, name: number} if number else {name: text}
    return result


def round_submission(
    rules: Rules, ad: Ad, columns: Columns, ad_before: Ad | None = None, columns_before: Columns | None = None
) -> tuple[Ad, Columns]:
    """Return the ad and the columns of a submission, with rounded numbers and their exact values.

    :param ad_before: the rounded attributes before transforms changed the jobs, which are not rounded again
    """
    before, result = ad_before or {}, columns
    changes = {name: text for name, text in ad.items() if before.get(name) != text}
    for name, texts in columns.items():
        if name.lower() in rules and (columns_before or {}).get(name) != texts:
            pairs = [(rounded(text, rules[name.lower()]), text) for text in texts]
            exact = [text if number else "undefined" for number, text in pairs]
            result = {**result, name: [number or text for number, text in pairs], f"{name}{EXACT}": exact}
    return {**ad, **with_rounding(rules, changes)}, result


def exact_sizes(rules: Rules, measured: ActivationMeasured) -> Ad:
    """Return the measured sizes of a running job as the exact values of attributes that are rounded."""
    sizes = {"ImageSize": measured.image, "ResidentSetSize": measured.resident, "DiskUsage": measured.disk}
    return {f"{name}{EXACT}": str(size) for name, size in sizes.items() if name.lower() in rules}


def rounded_sizes(rules: Rules, cluster: Cluster, run: Activation, end: ActivationEnded) -> Ad:
    """Return the rounded sizes of a job whose run ends, and their exact values."""
    names = ("ImageSize", "ResidentSetSize", "DiskUsage") if rules and run.measured else ()
    sizes = {name: cluster.value(run.proc, name) for name in names}
    if rules and end.resident and end.resident > parse_int(cluster.value(run.proc, "ResidentSetSize")):
        sizes["ResidentSetSize"] = str(end.resident)
    if end.disk:
        sizes["DiskUsage"] = str(end.disk)
    return {name: text for name, text in with_rounding(rules, sizes).items() if sizes.get(name) != text}
