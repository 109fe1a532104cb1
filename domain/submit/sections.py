"""Compute the attributes of commands that are not in the table of simple commands: program, files, exit, retries.

Source: the entry of each command in the manual's page "Submit Description File Commands"; for undocumented defaults,
the ads that HTCondor 25.14 creates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from .. import concurrency_limits
from ..classad import ClassAd, argument_syntax
from ..classad.argument_syntax import QuotingError, join, split
from ..classad.old_form import expression_text, literal_string, literal_value, quote_string, read_expression
from ..macros.functions import evaluate_integer
from . import container_commands
from .job_sections import (
    Action,
    Section,
    SubmitJob,
    VerbatimCommand,
    full_path,
    leading_integer,
    parse_boolean,
    strip_quotes,
)
from .submit_commands import OTHER_UNIVERSES, SCHEDULER, SIMPLE, UNIVERSES, UNSUPPORTED, CommandType, SubmitCommand
from .submit_context import SubmitError

# The names and numbers of signals on Linux.

_SIGNAL_NAMES = (
    "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM"
    " SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF"
    " SIGWINCH SIGIO SIGPWR SIGSYS"
)
SIGNAL_NUMBERS = MappingProxyType({name: number for number, name in enumerate(_SIGNAL_NAMES.split(), 1)})
_SIGNALS_BY_NUMBER = MappingProxyType({number: name for name, number in SIGNAL_NUMBERS.items()})


def signal_name(value: str) -> str | None:
    """Return the name of a signal, given by number or by name in any case, or None if no such signal exists."""
    number = leading_integer(value)
    name = _SIGNALS_BY_NUMBER.get(number) if number else value.strip().upper()
    return name if name in SIGNAL_NUMBERS else None


def _universe(job: SubmitJob) -> None:
    for command, advice in UNSUPPORTED:
        if job.value(command) is not None:
            raise job.error(command, advice)
    command = job.spelling("universe", "jobuniverse")
    name = job.value(command) or job.facts.setting("DEFAULT_UNIVERSE")
    number = UNIVERSES.get(name.lower())
    if number is None and job.value(command) is None:
        raise SubmitError(f"the configuration's DEFAULT_UNIVERSE = {name}: Poolbook does not support this universe")
    if number is None:
        advice = OTHER_UNIVERSES.get(name.lower(), "this universe is unknown")
        supported = "vanilla, container, docker, local and scheduler"
        tool = "" if name.lower() in OTHER_UNIVERSES else "I don't know about the '{value}' universe."
        raise job.error(command, f"Poolbook supports only the universes {supported}; {advice}", tool)
    deferral = job.spelling("deferral_time", "deferraltime")
    if number == SCHEDULER and job.value(deferral) is not None:
        error = "DeferralTime does not work for scheduler universe jobs"
        raise job.error(deferral, f"{error}; consider submitting this job using the local universe, instead")
    job.result["JobUniverse"] = str(number)
    if number != SCHEDULER:
        container_commands.set_container_flags(job, name.lower())
    if number != 5:
        job.set_string("KillSig", "SIGTERM")


def _iwd(job: SubmitJob) -> None:
    folder = job.value("initialdir", "iwd", "initial_dir", "job_iwd") or ""
    job.set_string("Iwd", full_path(folder, job.facts.iwd) if folder else job.facts.iwd)


def _executable(job: SubmitJob) -> None:
    if job.value("shell"):
        job.set_string("Cmd", "/bin/sh")
        job.result["TransferExecutable"] = "false"
        return
    name = job.value("executable", "cmd")
    in_container = container_commands.wants_container(job)  # an image may define a default program
    if name is None and not in_container:
        missing = "No 'executable' parameter was provided"
        raise SubmitError(f"{missing}; name the program: executable = /bin/sleep", tool=missing)
    transfer_text = job.value("transfer_executable", "transferexecutable")
    in_image = in_container and transfer_text is None and (name or "").startswith("/")
    in_image = in_image and parse_boolean(job.facts.setting("SUBMIT_CONTAINER_NEVER_XFER_ABSOLUTE_CMD")) is True
    transfer = (transfer_text or "true")[0] not in "fF" and name is not None and not in_image
    if not transfer:
        job.result["TransferExecutable"] = "false"
    job.set_string("Cmd", full_path(name, job.facts.iwd) if transfer and name else name or "")


def _arguments(job: SubmitJob) -> None:
    script, command, new_form = job.value("shell"), job.spelling("arguments", "args"), job.value("arguments2")
    allow_both = job.boolean("allow_arguments_v1")
    value = job.value(command)
    if new_form is not None:
        if value is not None and script is None and not allow_both:
            raise job.error(command, "arguments2 is given too; leave one out, or add allow_arguments_v1 = true")
        command, value = "arguments2", new_form
    try:
        if script is not None:
            job.set_string("Arguments", join(["-c", script]))
        elif value is None:
            job.result["Arguments"] = '""'
        elif command == "arguments2" or argument_syntax.uses_new_syntax(value):
            job.set_string("Arguments", join(split(argument_syntax.strip_double_quotes(value))))
        else:
            job.set_string("Args", argument_syntax.args_from_old_syntax(value))
    except QuotingError as error:
        raise job.error(command, str(error)) from None


def _environment(job: SubmitJob) -> None:
    command, new_form = job.spelling("environment", "env"), job.value("environment2")
    allow_both = job.boolean("allow_environment_v1")
    value = job.value(command)
    old_only = value is not None and new_form is None
    old_form = old_only and job.value("env") is not None and not argument_syntax.uses_new_syntax(job.values["env"])
    if new_form is not None:
        if value is not None and not allow_both:
            rule = "environment2 is given too; leave one out, or add allow_environment_v1 = true"
            raise job.error(command, rule)
        command, value = "environment2", new_form
    getenv = job.value("getenv", "get_env")
    try:
        environment = argument_syntax.parse_environment(value) if value is not None else {}
    except QuotingError as error:
        raise job.error(command, str(error)) from None
    if getenv is not None and (copies_all := parse_boolean(getenv)) is not False:
        if copies_all and job.facts.setting("SUBMIT_ALLOW_GETENV").lower() != "true":
            raise job.error("getenv", "this pool does not allow it (SUBMIT_ALLOW_GETENV); list the variables")
        patterns = "" if copies_all else getenv
        variables = argument_syntax.select_variables(patterns, job.facts.environment)
        if old_only:  # HTCondor omits variables that the old syntax cannot express
            variables = {name: text for name, text in variables.items() if ";" not in text}
        _warn_of_secrets(job, patterns, variables)
        environment = {**variables, **environment}
    if old_form:
        job.set_string("Env", argument_syntax.format_old_environment(environment))
        job.result["EnvDelim"] = '";"'
    else:
        job.set_string("Environment", argument_syntax.format_environment(environment))


def _warn_of_secrets(job: SubmitJob, patterns: str, variables: Mapping[str, str]) -> None:
    """Warn the user if secrets or the whole environment are copied into the job's ad, which all users can read."""
    secrets = argument_syntax.unlisted_secrets(patterns, variables)
    if not secrets and patterns.strip(",; ") not in ("", "*"):
        return
    more = " and others like it" if len(secrets) > 3 else ""
    examples = f", also {', '.join(secrets[:3])}{more}" if secrets else ""
    extent = "" if patterns else "all of "
    job.warn(
        f"getenv = {patterns or 'true'} copies {extent}your environment into the job's ad and the log{examples}; "
        "list what the job needs: getenv = PATH, HOME"
    )


def _status(job: SubmitJob) -> None:
    is_held = job.boolean("hold")
    job.result["JobStatus"] = "5" if is_held else "1"
    if is_held:
        job.result["HoldReasonCode"] = "15"
        job.set_string("HoldReason", "submitted on hold at user's request")


def _stream_action(attribute: str, word: str) -> Action:
    transfer_attribute, stream_attribute = f"Transfer{attribute}", f"Stream{attribute}"

    def action(job: SubmitJob) -> None:
        name = job.value(word, f"std{attribute.lower()}")
        transfer = job.boolean(f"transfer_{word}", f"transfer{attribute.lower()}") is not False
        stream = job.boolean(f"stream_{word}", f"stream{attribute.lower()}") is True
        job.set_string(attribute, name or "/dev/null")
        if name is not None and name != "/dev/null" and transfer:
            job.result[stream_attribute] = "true" if stream else "false"
        else:
            job.result[transfer_attribute] = "false"

    return action


def _notification(job: SubmitJob) -> None:
    command = job.spelling("notification", "jobnotification")
    word = job.value(command) or job.facts.setting("JOB_DEFAULT_NOTIFICATION")
    number = {"never": 0, "always": 1, "complete": 2, "error": 3, "start": 4}.get(word.lower())
    if number is None and job.value(command) is None:
        rule = "is not a valid notification value; use Never, Always, Complete, Start or Error"
        raise SubmitError(f"the configuration's JOB_DEFAULT_NOTIFICATION = {word} {rule}")
    if number is None:
        raise job.error(command, "this must be Never, Always, Complete, Start or Error")
    job.result["JobNotification"] = str(number)


def _rank(job: SubmitJob) -> None:
    setting, command = job.default, job.spelling("rank", "preferences")
    if job.value(command):
        job.expression(command)
    user_rank = job.value(command) or setting("DEFAULT_RANK_VANILLA") or setting("DEFAULT_RANK")
    appended = setting("APPEND_RANK_VANILLA") or setting("APPEND_RANK")
    text = f"({user_rank}) + ({appended})" if user_rank and appended else user_rank or appended
    job.result["Rank"] = expression_text(text) if text else "0.0"


def _retries(job: SubmitJob) -> None:
    remove, hold = job.spelling("on_exit_remove", "onexitremove"), job.spelling("on_exit_hold", "onexithold")
    max_retries, success_code = (
        job.spelling("max_retries", "jobmaxretries"),
        job.spelling("success_exit_code", "jobsuccessexitcode"),
    )
    hold_text = job.expression(hold) if job.value(hold) else None
    if not job.value(max_retries, success_code, "retry_until"):
        if job.value(remove):
            job.result["OnExitRemove"] = job.expression(remove)
        if hold_text:
            job.result["OnExitHold"] = hold_text
        return
    limit = job.integer(max_retries) if job.value(max_retries) else job.facts.setting("DEFAULT_JOB_MAX_RETRIES")
    job.result["JobMaxRetries"] = str(limit)
    job.result["OnExitHold"] = hold_text or "false"
    code = "0"
    if job.value(success_code):
        job.result["JobSuccessExitCode"] = str(_exit_code(job, success_code, job.integer(success_code)))
        code = "JobSuccessExitCode"
    clauses = ["NumJobCompletions > JobMaxRetries", f"ExitCode =?= {code}", *_retry_until_clauses(job)]
    if job.value(remove):
        clauses.append(_bracket_conditional(job.expression(remove)))
    job.result["OnExitRemove"] = expression_text(" || ".join(clauses))


def _retry_until_clauses(job: SubmitJob) -> Iterator[str]:
    value = job.value("retry_until")
    if value is None:
        return
    text = job.expression("retry_until")
    refers = read_expression(value).references(ClassAd()).external
    code = None if refers else evaluate_integer(value)
    yield _bracket_conditional(text) if code is None else f"ExitCode =?= {_exit_code(job, 'retry_until', code)}"


def _exit_code(job: SubmitJob, command: str, code: int) -> int:
    if not -(1 << 31) <= code < 1 << 31:
        raise job.error(command, "an exit code must fit in 32 bits")
    return code


def _bracket_conditional(text: str) -> str:
    return f"({text})" if "?" in re.sub(r"=\?=", "", text) else text


def _accounting(job: SubmitJob) -> None:
    if (project := job.value("project_name", "projectname")) is not None:
        job.set_string("ProjectName", project)
    group, user = job.value("accounting_group", "accountinggroup"), job.value("accounting_group_user", "acctgroupuser")
    if job.boolean("nice_user", "niceuser"):
        nice = job.facts.setting("NICE_USER_ACCOUNTING_GROUP_NAME")
        if group is not None and group != nice:
            job.warn("nice_user conflicts with accounting_group; nice_user is ignored")
        group = group or nice
        job.result["MaxJobRetirementTime"] = "0"
    if group is None and user is None:
        return
    for command, name in (("accounting_group", group), ("accounting_group_user", user)):
        if name is not None and re.search(r"\s", name):
            raise job.error(command, "it must not contain blanks")
    user = user or job.facts.owner
    job.set_string("AcctGroupUser", user)
    if group is not None:
        job.set_string("AcctGroup", group)
    job.set_string("AccountingGroup", user if group is None else f"{group}.{user}")


def _concurrency(job: SubmitJob) -> None:
    text, expression = job.value("concurrency_limits"), job.value("concurrency_limits_expr")
    if text is None:
        if expression is not None:
            job.result["ConcurrencyLimits"] = job.expression("concurrency_limits_expr")
        return
    if expression is not None:
        raise job.error("concurrency_limits_expr", "concurrency_limits is set too; use one of them")
    limits = sorted(concurrency_limits.split_limits(text.lower()))
    for limit in limits:
        if not concurrency_limits.is_valid(limit):
            raise job.error(
                "concurrency_limits", f"Invalid concurrency limit '{limit}'; write name, a.b or name:number"
            )
    if limits:
        job.set_string("ConcurrencyLimits", ",".join(limits))


_DEFERRAL_ATTRIBUTES = ("CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek", "DeferralTime")


def _may_be_seconds(text: str) -> bool:
    """Check whether an expression could be a number of seconds. Only a literal of another type could not."""
    if text.lower() in ("undefined", "error"):
        return False
    value = literal_value(text.removeprefix("-"))
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and (value == 0 or not text.startswith("-"))


def _deferral(job: SubmitJob) -> None:
    def seconds(attribute: str, default: str | None, *commands: str) -> None:
        command = job.spelling(*commands)
        if job.value(command) is None:
            if default is not None:
                job.result[attribute] = default
            return
        text = job.expression(command)
        if not _may_be_seconds(text):
            raise job.error(command, "this must be a number of seconds, 0 or more, or an integer expression")
        job.result[attribute] = text

    seconds("DeferralTime", None, "deferral_time", "deferraltime")
    if any(job.attribute(name) for name in _DEFERRAL_ATTRIBUTES):
        seconds("DeferralWindow", "0", "cron_window", "cronwindow", "deferral_window", "deferralwindow")
        seconds("DeferralPrepTime", "300", "cron_prep_time", "cronpreptime", "deferral_prep_time", "deferralpreptime")
        job.result["ScheddInterval"] = expression_text(job.facts.setting("SCHEDD_INTERVAL"))


_ATTRIBUTES_READ: dict[CommandType, tuple[str, ...]] = {CommandType.PATH: ("Iwd",)}


def _simple_action(command: SubmitCommand) -> Action:
    names, attribute, kind = command.commands, command.attribute, command.kind

    def action(job: SubmitJob) -> None:
        name = job.spelling(*names)
        value = job.value(name)
        if value is not None:
            job.result[attribute] = _attribute_text(job, name, value, kind)

    return action


def _attribute_text(job: SubmitJob, name: str, value: str, kind: CommandType) -> str:
    if kind is CommandType.EXPRESSION:
        return job.expression(name)
    if kind is CommandType.BOOLEAN:
        return "true" if job.boolean(name) else "false"
    if kind in (CommandType.INTEGER, CommandType.COUNT):
        return str(job.integer(name, 0 if kind is CommandType.COUNT else None))
    if kind is CommandType.LEADING:
        return str(leading_integer(value))
    if kind is CommandType.SIGNAL:
        signal = signal_name(value)
        if signal is None:
            raise job.error(name, "this must be a signal, for example SIGTERM or 15")
        return quote_string(signal)
    if kind is CommandType.UNQUOTED:
        return quote_string(strip_quotes(value))
    if kind is CommandType.LIST:
        return quote_string(",".join(word for word in re.split(r"[,\s]+", value) if word))
    if kind is CommandType.PATH:
        return quote_string(full_path(value, literal_string(job.attribute("Iwd")) or "/"))
    return quote_string(value)


def _dependent_attributes(job: SubmitJob) -> None:
    if job.attribute("JobUniverse") == "5" and job.attribute("JobLeaseDuration") is None:
        if default := job.default("JOB_DEFAULT_LEASE_DURATION"):
            job.result["JobLeaseDuration"] = default
    elif isinstance(lease := literal_value(job.attribute("JobLeaseDuration")), int | float) and 0 < int(lease) < 20:
        job.warn("JobLeaseDuration less than 20 seconds is not allowed, using 20 instead")
        job.result["JobLeaseDuration"] = "20"
    if job.attribute("SuccessCheckpointExitCode") is not None:
        job.result["WantFTOnCheckpoint"] = "true"
    if job.attribute("JobStarterLog") is not None and job.attribute("JobStarterDebug") is None:
        job.result["JobStarterDebug"] = "true"
    user = literal_string(job.attribute("NotifyUser")) or ""
    if user.lower() in ("false", "never"):
        job.warn(f"notify_user = {user} sends mail to {user}@{job.facts.uid_domain}; use notification = never for none")


def forced_section(command: str, attribute: str) -> Section:
    """Return the section of ``+Attribute``, which overrides any other command."""

    def action(job: SubmitJob) -> None:
        if job.value(command) is None:
            job.result[attribute] = "undefined"
            return
        job.result[attribute] = job.expression(command)

    return Section(action, (command,), (attribute,))


def _stream_section(attribute: str, word: str) -> Section:
    stream = attribute.lower()
    commands = (word, f"std{stream}", f"transfer_{word}", f"transfer{stream}", f"stream_{word}", f"stream{stream}")
    sets = (attribute, f"Transfer{attribute}", f"Stream{attribute}")
    verbatim = VerbatimCommand(word, attribute, commands[1:2])
    return Section(_stream_action(attribute, word), commands, sets, verbatim=verbatim)


FIRST: tuple[Section, ...] = (
    Section(
        _universe,
        (
            *("universe", "jobuniverse", "deferral_time", "deferraltime"),
            *(*container_commands.IMAGES, *(name for name, _ in UNSUPPORTED)),
        ),
        ("JobUniverse", "KillSig", *container_commands.CONTAINER_FLAGS, "WantDockerImage"),
    ),
    container_commands.IMAGE,
    Section(_iwd, ("initialdir", "iwd", "initial_dir", "job_iwd"), ("Iwd",)),
    Section(
        _executable,
        ("executable", "cmd", "shell", "transfer_executable", "transferexecutable"),
        ("Cmd", "TransferExecutable"),
        reads=container_commands.CONTAINER_FLAGS,
    ),
    Section(
        _arguments,
        ("arguments", "args", "arguments2", "shell", "allow_arguments_v1"),
        ("Args", "Arguments"),
        verbatim=VerbatimCommand("arguments", "Args", ("args",)),
    ),
    Section(
        _environment,
        ("environment", "env", "environment2", "getenv", "get_env", "allow_environment_v1"),
        ("Environment", "Env", "EnvDelim"),
    ),
    Section(_status, ("hold",), ("JobStatus", "HoldReason", "HoldReasonCode")),
    _stream_section("In", "input"),
    _stream_section("Out", "output"),
    _stream_section("Err", "error"),
    Section(_notification, ("notification", "jobnotification"), ("JobNotification",)),
    Section(_rank, ("rank", "preferences"), ("Rank",)),
    Section(
        _retries,
        (
            *("max_retries", "jobmaxretries", "success_exit_code", "jobsuccessexitcode", "retry_until"),
            *("on_exit_remove", "onexitremove", "on_exit_hold", "onexithold"),
        ),
        ("OnExitRemove", "OnExitHold", "JobMaxRetries", "JobSuccessExitCode"),
    ),
)
MIDDLE: tuple[Section, ...] = (
    Section(_concurrency, ("concurrency_limits", "concurrency_limits_expr"), ("ConcurrencyLimits",)),
    Section(
        _accounting,
        (
            *("accounting_group", "accountinggroup", "accounting_group_user", "acctgroupuser"),
            *("nice_user", "niceuser", "project_name", "projectname"),
        ),
        ("AccountingGroup", "AcctGroup", "AcctGroupUser", "MaxJobRetirementTime", "ProjectName"),
    ),
    *(
        Section(_simple_action(row), row.commands, (row.attribute,), _ATTRIBUTES_READ.get(row.kind, ()))
        for row in SIMPLE
    ),
    Section(
        _deferral,
        (
            *("deferral_time", "deferraltime", "cron_window", "cronwindow", "deferral_window", "deferralwindow"),
            *("cron_prep_time", "cronpreptime", "deferral_prep_time", "deferralpreptime"),
        ),
        ("DeferralTime", "DeferralWindow", "DeferralPrepTime", "ScheddInterval"),
        reads=_DEFERRAL_ATTRIBUTES,
    ),
)
LAST: tuple[Section, ...] = (
    Section(
        _dependent_attributes,
        (),
        ("JobLeaseDuration", "WantFTOnCheckpoint", "JobStarterDebug"),
        (
            "JobUniverse",
            "JobLeaseDuration",
            "SuccessCheckpointExitCode",
            "JobStarterLog",
            "JobStarterDebug",
            "NotifyUser",
        ),
    ),
)
