"""Submissions: check them, number them, and log each as one event, for any number of jobs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..classad import EvaluationError
from ..classad.evidence import integer_of
from ..decision.draft import Draft, Refusal, answer, ranges
from ..events import Ad, ClusterSubmitted
from ..ports.messages import OpenAccount
from ..ports.stimuli import Submit
from ..state.caches import ad_of, parse_cached
from ..state.cluster import Cluster
from ..state.job_ad import HOLD_ATTRIBUTES, count_hold, quoted, seconds, unquoted
from ..state.proc_ads import pack, unpack
from ..state.state import AccessPoint
from ..state_machines import dialect_named
from .admission import admit_submission
from .crontab import ATTRIBUTES
from .factories import LIMIT, makes_factory
from .policy_kinds import attributes_read, kinds

# The submitter of a submission: its user by default, else AccountingGroup (``accounting_group``,
# ``accounting_group_user`` and ``nice_user`` in a submit description), both followed by the pool's UID_DOMAIN.
#
# As in HTCondor, only a string has an effect: with an AccountingGroup that is a number, empty or undefined, the user is
# the submitter. All jobs of a cluster have one submitter, from their submission on.

GROUP = "AccountingGroup"
_STRING = re.compile(r"\"[^\"\\]*\"")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def submitter_of(draft: Draft[AccessPoint], command: Submit, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the submitter of a submission's jobs.

    :raises Refusal: the jobs have different submitters, or the name is invalid
    """
    domain = draft.state.uid_domain
    user = f"{command.user}@{domain}"
    texts = list(dict.fromkeys(_texts(command, columns)))
    names = list(dict.fromkeys(_named(draft, command, text, columns) for text in texts))
    if len(names) > 1:
        first, second = (f"{name}@{domain}" if name else user for name in names[:2])
        raise Refusal(
            f"the jobs of one submission count for one submitter, but {GROUP} differs between them ({first}, "
            f"{second}): submit them separately"
        )
    return f"{names[0]}@{domain}" if names[0] else user


def _texts(command: Submit, columns: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the values of AccountingGroup in the jobs; attribute names ignore case."""
    for name, column in columns.items():
        if name.lower() == GROUP.lower():
            return column
    return [text for name, text in command.ad.items() if name.lower() == GROUP.lower()] or [""]


def _named(draft: Draft[AccessPoint], command: Submit, text: str, columns: Mapping[str, Sequence[str]]) -> str:
    """Return the name in an AccountingGroup; empty: none."""
    if _STRING.fullmatch(text):
        value: object = unquoted(text)
    elif (meaning := parse_cached(text) if text else None) is None:
        return ""
    else:
        differ = {name.lower(): name for name in columns}
        read = [differ[word.lower()] for word in _WORD.findall(text) if word.lower() in differ]
        if read:
            raise Refusal(
                f"{GROUP} = {text[:200]}: it reads {read[0]}, which differs between the jobs, but all of them count "
                "for one submitter: submit them separately"
            )
        try:
            value = meaning.evaluate(ad_of({**command.ad, "Owner": quoted(command.user)}), None, draft.context)
        except EvaluationError:
            return ""
    if not isinstance(value, str):
        return ""
    if re.search(r"\s", value) or not value.isprintable():
        raise Refusal(f"{GROUP} = {text[:200]}: a name in accounting holds no blanks and can be printed")
    return value


# Jobs with too much input are held at submission: more than their MaxTransferInputMB, or if that is missing, than the
# access point's MAX_TRANSFER_INPUT_MB, which may read the job's ad.
#
# Source: the manual's "Submit Description File Commands" (max_transfer_input_mb) and "Configuration Macros"; the
# reference's qmgmt.cpp for the words, and that a negative limit is none.

_OWN, _SIZE = "MaxTransferInputMB", "TransferInputSizeMB"
_CODE = "32"  #: HoldReasonCode MaxTransferInputSizeExceeded


def hold_too_large(draft: Draft[AccessPoint], cluster: Cluster) -> None:
    """Hold the idle jobs of a new cluster that have too much input."""
    setting = draft.state.settings.get("MAX_TRANSFER_INPUT_MB", "")
    procs = [proc for proc in cluster.procs() if cluster.status_of(proc) == "Idle"]
    if not procs:
        return
    names = frozenset({_OWN.lower(), _SIZE.lower()})
    names |= attributes_read(filter(None, map(parse_cached, (_OWN, setting))), cluster, procs[0])
    for alike in kinds(cluster, procs, names):
        if changes := _too_large(draft, cluster, alike[0], setting):
            draft.move_jobs(cluster, ranges(alike), "hold", "submitted", "Idle", changes)


def _too_large(draft: Draft[AccessPoint], cluster: Cluster, proc: int, setting: str) -> Ad:
    """Return the changes of a job's ad if it is held; empty: it is not."""
    ad = ad_of(cluster.attributes(proc))
    expressions = (parse_cached(text) for text in (_OWN, setting, _SIZE))
    own, of_all, size = (None if each is None else integer_of(each, ad, None, draft.context) for each in expressions)
    limit = of_all if own is None else own
    if limit is None or limit < 0 or size is None or size <= limit:
        return {}
    reason = f"{_SIZE} ({size}) is greater than MAX_TRANSFER_INPUT_MB ({limit}) at submit time"
    return {"HoldReason": quoted(reason), "HoldReasonCode": _CODE, "HoldReasonSubCode": "0"}


NUMBERS_GIVEN_OUT = 10_000
"""How many cluster numbers may be given out and unused at one time."""


def submit(draft: Draft[AccessPoint], command: Submit) -> None:
    state = draft.state
    number = command.cluster or state.next_cluster
    if number < state.next_cluster and number not in state.unused_cluster_ids:
        raise Refusal(f"cluster {number} exists already; the next number is {state.next_cluster}")
    if number > state.next_cluster + NUMBERS_GIVEN_OUT:
        raise Refusal(f"cluster {number} was never given out; the next number is {state.next_cluster}")
    if command.count < 1:
        raise Refusal("nothing to submit: the queue statement yields no job")
    columns = _check(command)
    admitted = admit_submission(draft, command, number, columns)
    if admitted is None:
        return
    command, columns = admitted.command, admitted.columns
    submitter = submitter_of(draft, command, columns)
    ad, packed, on_hold = _held_from_the_start(command, columns)
    if makes_factory(ad) and not state.dialect.factories_hold_jobs and not on_hold:
        counted = _first_hold(ad) if ad.get("JobStatus") == "5" else {}
        counted.pop("InitialJobStatus", None)
        ad = {**ad, **counted, "JobStatus": "1"}
    held = ad.get("JobStatus") == "5"
    status = draft.fire("job", "Unsubmitted", "submit_on_hold" if held else "submit")
    now = seconds(draft.now)
    if held:
        ad = {**ad, **_first_hold(ad)}
    ad = {name: text for name, text in ad.items() if name.lower() not in _OF_THE_SUBMITTER}
    ad = {**ad, "QDate": now, "EnteredCurrentStatus": now, "ClusterId": str(number)}
    ad["Owner"] = quoted(command.user)
    ad["User"] = quoted(f"{command.user}@{state.uid_domain}")
    ad["TotalSubmitProcs"] = str(command.count)
    factory = makes_factory(ad)
    if factory:
        ad = _limited(ad, command.count)
        if on_hold:
            raise Refusal("a factory makes all of its jobs alike: hold all of them, or none")
    factor = draft.send(OpenAccount(submitter))
    admitted.tell()
    cluster = ClusterSubmitted(
        *draft.why("submitted"), number, submitter, ad, command.count, packed, status, factor, factory
    )
    draft.emit(replace(cluster, warnings=admitted.warnings) if admitted.warnings else cluster)
    for changes, procs in on_hold:
        draft.move_jobs(state.clusters[number], ranges(procs), "hold", "submitted", "Idle", changes)
    if not factory and (
        "MAX_TRANSFER_INPUT_MB" in state.settings or any(name.lower() == _MOST for name in (*ad, *columns))
    ):
        hold_too_large(draft, state.clusters[number])
    if not factory and any(name.lower() in _OF_A_SCHEDULE for name in (*ad, *columns)):
        from .job_deferral import schedule

        submitted = state.clusters[number]
        schedule(draft, submitted, [proc for proc in submitted.procs() if submitted.status_of(proc) == "Idle"])
    warning = warnings_text(admitted.warnings, draft.state.dialect.name)
    warned = {"warning": f"{heading(draft.state.dialect.name)}\n{warning}"} if warning else {}
    more = {**({"factory": True} if factory else {}), **warned}
    answer(draft, command, "submit", command.file, {"cluster": number, "count": command.count, **more})


def _limited(ad: Ad, count: int) -> Ad:
    """Return the ad of a cluster with a factory; its limit is the number of jobs by default."""
    limit = next((text for name, text in ad.items() if name.lower() == LIMIT.lower()), "0")
    given = limit.strip().lstrip("-")
    none = given.isdecimal() and (int(given) == 0 or limit.strip().startswith("-"))
    rest = {name: text for name, text in ad.items() if name.lower() != LIMIT.lower()}
    return {**rest, LIMIT: str(count) if none else limit}


_MOST = "maxtransferinputmb"
_OF_A_SCHEDULE = frozenset(map(str.lower, ATTRIBUTES))
_OF_THE_SUBMITTER = frozenset({"owner", "user"})
"""Attributes that name the job's user: the pool writes them, not the job."""
_INITIALLY_HELD = {"InitialJobStatus": "5"}
_ON_HOLD = "15"
"""HoldReasonCode of a job that its submission holds."""


def _first_hold(ad: Ad) -> Ad:
    """Return the changes of the ads of jobs that are all held from the start."""
    changes: Ad = {}
    code = ad.get("HoldReasonCode", "0")
    count_hold(changes, ad, code)
    return changes | (_INITIALLY_HELD if code == _ON_HOLD else {})


def _held_from_the_start(
    command: Submit, columns: Mapping[str, Sequence[str]]
) -> tuple[Ad, tuple[bytes, ...], list[tuple[Ad, list[int]]]]:
    """Return the ad and the columns of a submission, and the jobs to hold immediately if only some are, grouped by the
    hold attributes of their ads."""
    if "JobStatus" not in columns:
        return command.ad, command.columns, []
    ad = {name: text for name, text in command.ad.items() if name not in HOLD_ATTRIBUTES}
    rest = {name: texts for name, texts in columns.items() if name not in ("JobStatus", *HOLD_ATTRIBUTES)}
    groups: dict[tuple[str, ...], list[int]] = {}
    for proc, status in enumerate(columns["JobStatus"]):
        if status == "5":
            hold = [columns[name][proc] if name in columns else command.ad.get(name, "") for name in HOLD_ATTRIBUTES]
            groups.setdefault(tuple(hold), []).append(proc)
    known = (dict(zip(HOLD_ATTRIBUTES, hold, strict=True)) for hold in groups)
    said_ones = [{name: text for name, text in one.items() if text not in ("", "undefined")} for one in known]
    changes = [(_INITIALLY_HELD if one.get("HoldReasonCode") == _ON_HOLD else {}) | one for one in said_ones]
    return {**ad, "JobStatus": "1"}, pack(rest), list(zip(changes, groups.values(), strict=True))


# Texts that are expressions without parsing them: numbers and strings without an escape.
_PLAIN = re.compile(r"-?[0-9]+(?:\.[0-9]+)?|\"[^\"\\\\]*\"", re.ASCII)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def _check(command: Submit) -> Mapping[str, Sequence[str]]:
    """Return the attributes that differ between the jobs. Invalid ads are refused: the log must always be readable.

    :raises Refusal: an invalid name or text, or columns that do not have one value per job
    """
    try:
        columns = unpack(command.columns)
    except Exception:
        raise Refusal(
            "the jobs' own attributes cannot be read: they are packed as poolbook submit packs them"
        ) from None
    for name, texts in columns.items():
        if name.lower() in _OF_THE_SUBMITTER:
            raise Refusal(f"{name} is not the jobs' own to say: it is {command.user}, who submits them; leave it out")
        if len(texts) != command.count:
            raise Refusal(f"{name} has {len(texts)} values for {command.count} jobs")
    for name, texts in [*((name, [text]) for name, text in command.ad.items()), *columns.items()]:
        if not _NAME.fullmatch(name):
            raise Refusal(f"{name!r} is no attribute's name")
        if all(map(_PLAIN.fullmatch, texts)):
            continue
        for text in texts:
            if not _PLAIN.fullmatch(text) and parse_cached(text) is None:
                raise Refusal(f"{name} = {text[:200]}: this is no ClassAd expression")
    return columns


def warnings_text(warnings: Sequence[str], dialect: str) -> str:
    """Return the warnings for the user, without the heading: in the manual's dialect the last one; in HTCondor 25's all
    of them, the last one first."""
    if not warnings:
        return ""
    if dialect_named(dialect).shows_only_last_warning:
        return warnings[-1].rstrip("\n")
    return "|".join(f"QMGMT:0:{text}" for text in reversed(warnings))


def heading(dialect: str) -> str:
    """Return the line before warnings."""
    plural = "" if dialect_named(dialect).shows_only_last_warning else "(s)"
    return f"Committed job submission into the queue with the following warning{plural}:"
