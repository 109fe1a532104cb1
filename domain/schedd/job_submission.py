"""Submissions: check and number them, and log each as one event, whatever its number of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..classad import EvaluationError
from ..classad.value_evidence import integer_of
from ..decision.draft import Draft, Refusal, answer, ranges
from ..events import Ad, ClusterSubmitted
from ..ports.messages import OpenAccount
from ..ports.stimuli import Submit
from ..state.caches import ad_from_attributes, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import HOLD_ATTRIBUTES, count_hold, quoted, seconds, unquoted
from ..state.proc_ads import pack, unpack
from ..state.state import AccessPoint
from ..state_machines import dialect_named
from .admission import admit_submission
from .crontab import LOWER_ATTRIBUTES
from .factories import LIMIT_ATTRIBUTE, has_factory
from .job_sets import in_job_set, job_set_attributes
from .policy_kinds import attributes_read, group_alike
from .rounding import Columns, Rules, round_submission, rounding_rules

# The submitter of a submission: its user by default, else AccountingGroup (``accounting_group``,
# ``accounting_group_user`` and ``nice_user`` in a submit description), both followed by the pool's UID_DOMAIN.
#
# As in HTCondor, only a string has an effect: if AccountingGroup is a number, empty or undefined, the user is the
# submitter. All jobs of a cluster have the same submitter, which never changes.

GROUP_ATTRIBUTE = "AccountingGroup"
_STRING = re.compile(r"\"[^\"\\]*\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def submitter_of(draft: Draft[AccessPoint], command: Submit, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the submitter of a submission's jobs.

    :raises Refusal: if the jobs have different submitters, or the name is invalid
    """
    domain = draft.state.uid_domain
    user = f"{command.user}@{domain}"
    texts = list(dict.fromkeys(_group_texts(command, columns)))
    names = list(dict.fromkeys(_group_name(draft, command, text, columns) for text in texts))
    if len(names) > 1:
        first, second = (f"{name}@{domain}" if name else user for name in names[:2])
        raise Refusal(
            f"all jobs of a submission must have the same submitter, but {GROUP_ATTRIBUTE} differs between them "
            f"({first}, {second}): submit them separately"
        )
    return f"{names[0]}@{domain}" if names[0] else user


def _group_texts(command: Submit, columns: Mapping[str, Sequence[str]]) -> Sequence[str]:
    for name, column in columns.items():
        if name.lower() == GROUP_ATTRIBUTE.lower():
            return column
    return [text for name, text in command.ad.items() if name.lower() == GROUP_ATTRIBUTE.lower()] or [""]


def _group_name(draft: Draft[AccessPoint], command: Submit, text: str, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the name that an AccountingGroup evaluates to, or an empty string."""
    if _STRING.fullmatch(text):
        value: object = unquoted(text)
    elif (parsed := parse_cached(text) if text else None) is None:
        return ""
    else:
        varying = {name.lower(): name for name in columns}
        varying_read = [varying[word.lower()] for word in _WORD.findall(text) if word.lower() in varying]
        if varying_read:
            raise Refusal(
                f"{GROUP_ATTRIBUTE} = {text[:200]}: it reads {varying_read[0]}, which differs between the jobs, "
                "but all of them must have the same submitter: submit them separately"
            )
        try:
            value = parsed.evaluate(
                ad_from_attributes({**command.ad, "Owner": quoted(command.user)}), None, draft.context
            )
        except EvaluationError:
            return ""
    if not isinstance(value, str):
        return ""
    if re.search(r"\s", value) or not value.isprintable():
        raise Refusal(
            f"{GROUP_ATTRIBUTE} = {text[:200]}: an accounting name must consist of printable characters without blanks"
        )
    return value


# Jobs whose input exceeds their MaxTransferInputMB, or else the access point's MAX_TRANSFER_INPUT_MB (which may read
# the job's ad), are held at submission.
#
# Source: the manual's "Submit Description File Commands" (max_transfer_input_mb) and "Configuration Macros"; HTCondor's
# qmgmt.cpp for the message and the rule that a negative limit means no limit.

_JOB_LIMIT, _INPUT_SIZE = "MaxTransferInputMB", "TransferInputSizeMB"
_TOO_LARGE_CODE = "32"  #: HoldReasonCode MaxTransferInputSizeExceeded


def hold_jobs_with_large_input(draft: Draft[AccessPoint], cluster: Cluster) -> None:
    """Hold the idle jobs of a new cluster whose input is too large."""
    setting = draft.state.settings.get("MAX_TRANSFER_INPUT_MB", "")
    procs = [proc for proc in cluster.procs() if cluster.status_of(proc) == "Idle"]
    if not procs:
        return
    names = frozenset({_JOB_LIMIT.lower(), _INPUT_SIZE.lower()})
    names |= attributes_read(filter(None, map(parse_cached, (_JOB_LIMIT, setting))), cluster, procs[0])
    for procs_alike in group_alike(cluster, procs, names):
        if changes := _large_input_hold(draft, cluster, procs_alike[0], setting):
            draft.move_jobs(cluster, ranges(procs_alike), "hold", "submitted", "Idle", changes)


def _large_input_hold(draft: Draft[AccessPoint], cluster: Cluster, proc: int, setting: str) -> Ad:
    ad = ad_from_attributes(cluster.attributes(proc))
    trees = (parse_cached(text) for text in (_JOB_LIMIT, setting, _INPUT_SIZE))
    job_max, pool_max, size = (None if tree is None else integer_of(tree, ad, None, draft.context) for tree in trees)
    limit = pool_max if job_max is None else job_max
    if limit is None or limit < 0 or size is None or size <= limit:
        return {}
    reason = f"{_INPUT_SIZE} ({size}) is greater than MAX_TRANSFER_INPUT_MB ({limit}) at submit time"
    return {"HoldReason": quoted(reason), "HoldReasonCode": _TOO_LARGE_CODE, "HoldReasonSubCode": "0"}


MAX_RESERVED_NUMBERS = 10_000
"""The maximum number of cluster numbers that are reserved but unused at the same time."""


def submit(draft: Draft[AccessPoint], command: Submit) -> None:
    state = draft.state
    number = command.cluster or state.next_cluster
    if number < state.next_cluster and number not in state.unused_cluster_ids:
        raise Refusal(f"cluster {number} already exists; the next number is {state.next_cluster}")
    if number > state.next_cluster + MAX_RESERVED_NUMBERS:
        raise Refusal(f"cluster {number} was not reserved; the next number is {state.next_cluster}")
    if command.count < 1:
        raise Refusal("nothing to submit: the queue statement has no jobs")
    rules = rounding_rules(state)
    command, columns = _rounded(rules, command, _check(command))
    admitted = admit_submission(draft, command, number, columns)
    if admitted is None:
        return
    command, columns = _rounded(rules, admitted.command, admitted.columns, command.ad, columns)
    submitter = submitter_of(draft, command, columns)
    ad, packed, on_hold = _initially_held_jobs(command, columns)
    if has_factory(ad) and not state.dialect.factories_hold_jobs and not on_hold:
        hold_counts = _initial_hold(ad) if ad.get("JobStatus") == "5" else {}
        hold_counts.pop("InitialJobStatus", None)
        ad = {**ad, **hold_counts, "JobStatus": "1"}
    is_held = ad.get("JobStatus") == "5"
    status = draft.fire("job", "Unsubmitted", "submit_on_hold" if is_held else "submit")
    now = seconds(draft.now)
    if is_held:
        ad = {**ad, **_initial_hold(ad)}
    ad = {name: text for name, text in ad.items() if name.lower() not in _USER_ATTRIBUTES}
    ad = {**ad, "QDate": now, "EnteredCurrentStatus": now, "ClusterId": str(number)}
    ad["Owner"] = quoted(command.user)
    ad["User"] = quoted(f"{command.user}@{state.uid_domain}")
    ad["TotalSubmitProcs"] = str(command.count)
    ad = in_job_set(draft, command.user, number, ad)
    job_set = job_set_attributes(state.settings, ad, command.job_set)
    factory = has_factory(ad)
    if factory:
        ad = _with_default_limit(ad, command.count)
        if on_hold:
            raise Refusal("all jobs of a factory must have the same status; hold all of them or none")
    factor = draft.send(OpenAccount(submitter))
    admitted.log_transforms()
    cluster = ClusterSubmitted(
        *draft.header("submitted"), number, submitter, ad, command.count, packed, status, factor, factory,
        job_set=job_set,
    )  # fmt: skip
    draft.emit(replace(cluster, warnings=admitted.warnings) if admitted.warnings else cluster)
    for changes, procs in on_hold:
        draft.move_jobs(state.clusters[number], ranges(procs), "hold", "submitted", "Idle", changes)
    if not factory and (
        "MAX_TRANSFER_INPUT_MB" in state.settings or any(name.lower() == _JOB_LIMIT.lower() for name in (*ad, *columns))
    ):
        hold_jobs_with_large_input(draft, state.clusters[number])
    if not factory and any(name.lower() in LOWER_ATTRIBUTES for name in (*ad, *columns)):
        from .job_deferral import schedule_runs

        submitted = state.clusters[number]
        schedule_runs(draft, submitted, [proc for proc in submitted.procs() if submitted.status_of(proc) == "Idle"])
    warning = warnings_text(admitted.warnings, draft.state.dialect.name)
    warning_answer = {"warning": f"{warning_heading(draft.state.dialect.name)}\n{warning}"} if warning else {}
    extra = {**({"factory": True} if factory else {}), **warning_answer}
    answer(draft, command, "submit", command.file, {"cluster": number, "count": command.count, **extra})


def _rounded(
    rules: Rules, command: Submit, columns: Columns, ad_before: Ad | None = None, columns_before: Columns | None = None
) -> tuple[Submit, Columns]:
    if not rules:
        return command, columns
    ad, rounded_columns = round_submission(rules, command.ad, columns, ad_before, columns_before)
    packed = command.columns if rounded_columns is columns else pack(rounded_columns)
    return replace(command, ad=ad, columns=packed), rounded_columns


def _with_default_limit(ad: Ad, count: int) -> Ad:
    """Return the cluster ad of a factory; its limit defaults to the number of jobs."""
    limit = next((text for name, text in ad.items() if name.lower() == LIMIT_ATTRIBUTE.lower()), "0")
    digits = limit.strip().lstrip("-")
    is_unlimited = digits.isdecimal() and (int(digits) == 0 or limit.strip().startswith("-"))
    other_attributes = {name: text for name, text in ad.items() if name.lower() != LIMIT_ATTRIBUTE.lower()}
    return {**other_attributes, LIMIT_ATTRIBUTE: str(count) if is_unlimited else limit}


_USER_ATTRIBUTES = frozenset({"owner", "user"})
"""Attributes that contain the job's user; only the pool sets them."""
_INITIALLY_HELD = {"InitialJobStatus": "5"}
_HELD_AT_SUBMISSION = "15"
"""HoldReasonCode of a job that was submitted on hold."""


def _initial_hold(ad: Ad) -> Ad:
    changes: Ad = {}
    code = ad.get("HoldReasonCode", "0")
    count_hold(changes, ad, code)
    return changes | (_INITIALLY_HELD if code == _HELD_AT_SUBMISSION else {})


def _initially_held_jobs(
    command: Submit, columns: Mapping[str, Sequence[str]]
) -> tuple[Ad, tuple[bytes, ...], list[tuple[Ad, list[int]]]]:
    """Return a submission's ad and columns. If only some of its jobs are submitted on hold, the ad submits all as idle;
    then also return the jobs to hold, grouped by their hold attributes."""
    if "JobStatus" not in columns:
        return command.ad, command.columns, []
    ad = {name: text for name, text in command.ad.items() if name not in HOLD_ATTRIBUTES}
    other_attributes = {name: texts for name, texts in columns.items() if name not in ("JobStatus", *HOLD_ATTRIBUTES)}
    groups: dict[tuple[str, ...], list[int]] = {}
    for proc, status in enumerate(columns["JobStatus"]):
        if status == "5":
            hold = [columns[name][proc] if name in columns else command.ad.get(name, "") for name in HOLD_ATTRIBUTES]
            groups.setdefault(tuple(hold), []).append(proc)
    hold_fields = (dict(zip(HOLD_ATTRIBUTES, hold, strict=True)) for hold in groups)
    changes = []
    for fields in hold_fields:
        initial = _INITIALLY_HELD if fields["HoldReasonCode"] == _HELD_AT_SUBMISSION else {}
        changes.append(initial | {name: text for name, text in fields.items() if text not in ("", "undefined")})
    return {**ad, "JobStatus": "1"}, pack(other_attributes), list(zip(changes, groups.values(), strict=True))


# Texts that are known to be expressions without parsing: numbers, and strings without escapes.
_CONSTANT = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|\"[^\"\\\\]*\"", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _check(command: Submit) -> Mapping[str, Sequence[str]]:
    """Return the attributes that differ between the jobs. Reject invalid ads, because the log must remain readable.

    :raises Refusal: if a name or text is invalid, or a column lacks a value for each job
    """
    try:
        columns = unpack(command.columns)
    except Exception:
        raise Refusal(
            "the attributes that differ between jobs cannot be read; pack them as poolbook submit does"
        ) from None
    for name, texts in columns.items():
        if name.lower() in _USER_ATTRIBUTES:
            raise Refusal(f"{name} cannot be set: it is always the submitting user, {command.user}; leave it out")
        if len(texts) != command.count:
            raise Refusal(f"{name} has {len(texts)} values for {command.count} jobs")
    shared = [(name, [text]) for name, text in (*command.ad.items(), *command.job_set.items())]
    for name, texts in [*shared, *columns.items()]:
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is not a valid attribute name")
        if all(map(_CONSTANT.fullmatch, texts)):
            continue
        for text in texts:
            if not _CONSTANT.fullmatch(text) and parse_cached(text) is None:
                raise Refusal(f"{name} = {text[:200]}: this is not a ClassAd expression")
    return columns


def warnings_text(warnings: Sequence[str], dialect: str) -> str:
    """Return the warnings for the user, without the heading: only the last one in the manual's dialect; all of them, in
    reverse order, in HTCondor 25's dialect."""
    if not warnings:
        return ""
    if dialect_named(dialect).shows_only_last_warning:
        return warnings[-1].rstrip("\n")
    return "|".join(f"QMGMT:0:{text}" for text in reversed(warnings))


def warning_heading(dialect: str) -> str:
    """Return the heading that precedes warnings."""
    plural = "" if dialect_named(dialect).shows_only_last_warning else "(s)"
    return f"Committed job submission into the queue with the following warning{plural}:"
