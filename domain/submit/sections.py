"""Make the attributes that need more than the table of simple commands: program, files, exit, retries.

Source: the manual's page "Submit Description File Commands", the entry of each command; for defaults that it leaves
open, the ads of HTCondor 25.14.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

from .. import concurrency_limits
from ..classad import ClassAd, argument_syntax
from ..classad.argument_syntax import QuotingError, join, split
from ..classad.old_form import expression_text, literal, literal_string, read_expression, string_text
from ..macros.functions import whole_number
from . import container_commands
from .job_sections import Action, Job, Section, Verbatim, full_path, leading_integer, stripped, truth_of
from .submit_commands import OTHER_UNIVERSES, REFUSED, SCHEDULER, SIMPLE, UNIVERSES, CommandType, SubmitCommand
from .submit_context import SubmitError

# Know signals by name and number, as Linux has them.

_NAMES = (
    "SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM"
    " SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF"
    " SIGWINCH SIGIO SIGPWR SIGSYS"
)
NUMBERS = MappingProxyType({name: number for number, name in enumerate(_NAMES.split(), 1)})
_BY_NUMBER = MappingProxyType({number: name for name, number in NUMBERS.items()})


def signal_name(value: str) -> str | None:
    """Return the name of a signal given by number or by name in any case; None if it does not exist."""
    number = leading_integer(value)
    name = _BY_NUMBER.get(number) if number else value.strip().upper()
    return name if name in NUMBERS else None


def _universe(job: Job) -> None:
    for command, way_out in REFUSED:
        if job.value(command) is not None:
            raise job.wrong(command, way_out)
    command = job.given("universe", "jobuniverse")
    name = job.value(command) or job.facts.setting("DEFAULT_UNIVERSE")
    number = UNIVERSES.get(name.lower())
    if number is None and job.value(command) is None:
        raise SubmitError(f"the configuration's DEFAULT_UNIVERSE = {name}: no job here can have this universe")
    if number is None:
        way_out = OTHER_UNIVERSES.get(name.lower(), "there is no such universe")
        there_are = "vanilla, container, docker, local and scheduler"
        tool = "" if name.lower() in OTHER_UNIVERSES else "I don't know about the '{value}' universe."
        raise job.wrong(command, f"only the universes {there_are} run here; {way_out}", tool)
    deferral = job.given("deferral_time", "deferraltime")
    if number == SCHEDULER and job.value(deferral) is not None:
        problem = "DeferralTime does not work for scheduler universe jobs"
        raise job.wrong(deferral, f"{problem}; consider submitting this job using the local universe, instead")
    job.made["JobUniverse"] = str(number)
    if number != SCHEDULER:
        container_commands.want(job, name.lower())
    if number != 5:
        job.set_string("KillSig", "SIGTERM")


def _iwd(job: Job) -> None:
    folder = job.value("initialdir", "iwd", "initial_dir", "job_iwd") or ""
    job.set_string("Iwd", full_path(folder, job.facts.iwd) if folder else job.facts.iwd)


def _executable(job: Job) -> None:
    if job.value("shell"):
        job.set_string("Cmd", "/bin/sh")
        job.made["TransferExecutable"] = "false"
        return
    name = job.value("executable", "cmd")
    inside = container_commands.wants_container(job)  # an image may include its program
    if name is None and not inside:
        missing = "No 'executable' parameter was provided"
        raise SubmitError(f"{missing}; name the program: executable = /bin/sleep", tool=missing)
    given = job.value("transfer_executable", "transferexecutable")
    stays = inside and given is None and (name or "").startswith("/")
    stays = stays and truth_of(job.facts.setting("SUBMIT_CONTAINER_NEVER_XFER_ABSOLUTE_CMD")) is True
    transfer = (given or "true")[0] not in "fF" and name is not None and not stays
    if not transfer:
        job.made["TransferExecutable"] = "false"
    job.set_string("Cmd", full_path(name, job.facts.iwd) if transfer and name else name or "")


def _arguments(job: Job) -> None:
    script, command, new = job.value("shell"), job.given("arguments", "args"), job.value("arguments2")
    both_forms = job.boolean("allow_arguments_v1")
    value = job.value(command)
    if new is not None:
        if value is not None and script is None and not both_forms:
            raise job.wrong(command, "arguments2 is given too; leave one out, or add allow_arguments_v1 = true")
        command, value = "arguments2", new
    try:
        if script is not None:
            job.set_string("Arguments", join(["-c", script]))
        elif value is None:
            job.made["Arguments"] = '""'
        elif command == "arguments2" or argument_syntax.uses_new_syntax(value):
            job.set_string("Arguments", join(split(argument_syntax.strip_double_quotes(value))))
        else:
            job.set_string("Args", argument_syntax.args_from_old_syntax(value))
    except QuotingError as problem:
        raise job.wrong(command, str(problem)) from None


def _environment(job: Job) -> None:
    command, new = job.given("environment", "env"), job.value("environment2")
    both_forms = job.boolean("allow_environment_v1")
    value = job.value(command)
    old_only = value is not None and new is None
    old_form = old_only and job.value("env") is not None and not argument_syntax.uses_new_syntax(job.values["env"])
    if new is not None:
        if value is not None and not both_forms:
            rule = "environment2 is given too; leave one out, or add allow_environment_v1 = true"
            raise job.wrong(command, rule)
        command, value = "environment2", new
    wanted = job.value("getenv", "get_env")
    try:
        own = argument_syntax.parse_environment(value) if value is not None else {}
    except QuotingError as problem:
        raise job.wrong(command, str(problem)) from None
    if wanted is not None and (everything := truth_of(wanted)) is not False:
        if everything and job.facts.setting("SUBMIT_ALLOW_GETENV").lower() != "true":
            raise job.wrong("getenv", "this pool does not allow it (SUBMIT_ALLOW_GETENV); list the variables wanted")
        patterns = "" if everything else wanted
        variables = argument_syntax.select_variables(patterns, job.facts.environment)
        if old_only:  # HTCondor leaves out what the old syntax cannot express, even beside the new one
            variables = {name: text for name, text in variables.items() if ";" not in text}
        _warn_of_secrets(job, patterns, variables)
        own = {**variables, **own}
    if old_form:
        job.set_string("Env", argument_syntax.format_old_environment(own))
        job.made["EnvDelim"] = '";"'
    else:
        job.set_string("Environment", argument_syntax.format_environment(own))


def _warn_of_secrets(job: Job, patterns: str, variables: Mapping[str, str]) -> None:
    """Warn of what is copied that hardly anybody means: HTCondor copies it, into the ad that all may read."""
    secrets = argument_syntax.unlisted_secrets(patterns, variables)
    if not secrets and patterns.strip(",; ") not in ("", "*"):
        return
    more = " and others like it" if len(secrets) > 3 else ""
    shown = f", also {', '.join(secrets[:3])}{more}" if secrets else ""
    extent = "" if patterns else "all of "
    job.warn(
        f"getenv = {patterns or 'true'} copies {extent}your environment into the job's ad and the log{shown}; "
        "list what the job needs: getenv = PATH, HOME"
    )


def _status(job: Job) -> None:
    held = job.boolean("hold")
    job.made["JobStatus"] = "5" if held else "1"
    if held:
        job.made["HoldReasonCode"] = "15"
        job.set_string("HoldReason", "submitted on hold at user's request")


def _stream(attribute: str, word: str) -> Action:
    """Return the section of stdin, stdout or stderr; ``word`` is input, output or error."""
    transfer_attribute, stream_attribute = f"Transfer{attribute}", f"Stream{attribute}"

    def action(job: Job) -> None:
        name = job.value(word, f"std{attribute.lower()}")
        transfer = job.boolean(f"transfer_{word}", f"transfer{attribute.lower()}") is not False
        stream = job.boolean(f"stream_{word}", f"stream{attribute.lower()}") is True
        job.set_string(attribute, name or "/dev/null")
        if name is not None and name != "/dev/null" and transfer:
            job.made[stream_attribute] = "true" if stream else "false"
        else:
            job.made[transfer_attribute] = "false"

    return action


def _notification(job: Job) -> None:
    command = job.given("notification", "jobnotification")
    word = job.value(command) or job.facts.setting("JOB_DEFAULT_NOTIFICATION")
    number = {"never": 0, "always": 1, "complete": 2, "error": 3, "start": 4}.get(word.lower())
    if number is None and job.value(command) is None:
        raise SubmitError(f"the configuration's JOB_DEFAULT_NOTIFICATION = {word}: it must be as notification is")
    if number is None:
        raise job.wrong(command, "this must be Never, Always, Complete, Start or Error")
    job.made["JobNotification"] = str(number)


def _rank(job: Job) -> None:
    setting, command = job.default, job.given("rank", "preferences")
    if job.value(command):
        job.expression(command)
    own = job.value(command) or setting("DEFAULT_RANK_VANILLA") or setting("DEFAULT_RANK")
    added = setting("APPEND_RANK_VANILLA") or setting("APPEND_RANK")
    text = f"({own}) + ({added})" if own and added else own or added
    job.made["Rank"] = expression_text(text) if text else "0.0"


def _retries(job: Job) -> None:
    """Make OnExitRemove of max_retries, success_exit_code and retry_until, beside on_exit_remove."""
    remove, hold = job.given("on_exit_remove", "onexitremove"), job.given("on_exit_hold", "onexithold")
    most, success = job.given("max_retries", "jobmaxretries"), job.given("success_exit_code", "jobsuccessexitcode")
    hold_text = job.expression(hold) if job.value(hold) else None
    if not job.value(most, success, "retry_until"):
        if job.value(remove):
            job.made["OnExitRemove"] = job.expression(remove)
        if hold_text:
            job.made["OnExitHold"] = hold_text
        return
    limit = job.integer(most) if job.value(most) else job.facts.setting("DEFAULT_JOB_MAX_RETRIES")
    job.made["JobMaxRetries"] = str(limit)
    job.made["OnExitHold"] = hold_text or "false"
    code = "0"
    if job.value(success):
        job.made["JobSuccessExitCode"] = str(_exit_code(job, success, job.integer(success)))
        code = "JobSuccessExitCode"
    clauses = ["NumJobCompletions > JobMaxRetries", f"ExitCode =?= {code}", *_until(job)]
    if job.value(remove):
        clauses.append(_in_brackets(job.expression(remove)))
    job.made["OnExitRemove"] = expression_text(" || ".join(clauses))


def _until(job: Job) -> Iterator[str]:
    value = job.value("retry_until")
    if value is None:
        return
    text = job.expression("retry_until")
    refers = read_expression(value).references(ClassAd()).external
    code = None if refers else whole_number(value)
    yield _in_brackets(text) if code is None else f"ExitCode =?= {_exit_code(job, 'retry_until', code)}"


def _exit_code(job: Job, command: str, code: int) -> int:
    if not -(1 << 31) <= code < 1 << 31:
        raise job.wrong(command, "an exit code must fit in 32 bits")
    return code


def _in_brackets(text: str) -> str:
    """Put an operand of || in brackets where it would come apart otherwise."""
    return f"({text})" if "?" in re.sub(r"=\?=", "", text) else text


def _accounting(job: Job) -> None:
    if (project := job.value("project_name", "projectname")) is not None:
        job.set_string("ProjectName", project)
    group, user = job.value("accounting_group", "accountinggroup"), job.value("accounting_group_user", "acctgroupuser")
    if job.boolean("nice_user", "niceuser"):
        nice = job.facts.setting("NICE_USER_ACCOUNTING_GROUP_NAME")
        if group is not None and group != nice:
            job.warn("nice_user conflicts with accounting_group; nice_user is ignored")
        group = group or nice
        job.made["MaxJobRetirementTime"] = "0"
    if group is None and user is None:
        return
    for command, name in (("accounting_group", group), ("accounting_group_user", user)):
        if name is not None and re.search(r"\s", name):
            raise job.wrong(command, "a name in accounting holds no blanks")
    who = user or job.facts.owner
    job.set_string("AcctGroupUser", who)
    if group is not None:
        job.set_string("AcctGroup", group)
    job.set_string("AccountingGroup", who if group is None else f"{group}.{who}")


def _concurrency(job: Job) -> None:
    text, expression = job.value("concurrency_limits"), job.value("concurrency_limits_expr")
    if text is None:
        if expression is not None:
            job.made["ConcurrencyLimits"] = job.expression("concurrency_limits_expr")
        return
    if expression is not None:
        raise job.wrong("concurrency_limits_expr", "concurrency_limits stands beside it; use one of them")
    limits = sorted(concurrency_limits.words(text.lower()))
    for limit in limits:
        if not concurrency_limits.is_valid(limit):
            raise job.wrong(
                "concurrency_limits", f"Invalid concurrency limit '{limit}'; write name, a.b or name:number"
            )
    if limits:
        job.set_string("ConcurrencyLimits", ",".join(limits))


_DEFERRED_BY = ("CronMinute", "CronHour", "CronDayOfMonth", "CronMonth", "CronDayOfWeek", "DeferralTime")


def _is_seconds(text: str) -> bool:
    """Return whether a text is an expression that gives a number of seconds, as far as a literal shows it."""
    if text.lower() in ("undefined", "error"):
        return False
    value = literal(text.removeprefix("-"))
    if value is None:
        return True
    return isinstance(value, int) and not isinstance(value, bool) and (value == 0 or not text.startswith("-"))


def _deferral(job: Job) -> None:
    def seconds(attribute: str, default: str | None, *commands: str) -> None:
        command = job.given(*commands)
        if job.value(command) is None:
            if default is not None:
                job.made[attribute] = default
            return
        text = job.expression(command)
        if not _is_seconds(text):
            raise job.wrong(command, "this must be an integer from 0 (seconds), or an expression that gives one")
        job.made[attribute] = text

    seconds("DeferralTime", None, "deferral_time", "deferraltime")
    if any(job.attribute(name) for name in _DEFERRED_BY):
        seconds("DeferralWindow", "0", "cron_window", "cronwindow", "deferral_window", "deferralwindow")
        seconds("DeferralPrepTime", "300", "cron_prep_time", "cronpreptime", "deferral_prep_time", "deferralpreptime")
        job.made["ScheddInterval"] = expression_text(job.facts.setting("SCHEDD_INTERVAL"))


def simple(command: SubmitCommand) -> Section:
    return Section(_simple_action(command), command.commands, (command.attribute,), _READS.get(command.kind, ()))


_READS: dict[CommandType, tuple[str, ...]] = {CommandType.PATH: ("Iwd",)}


def _simple_action(command: SubmitCommand) -> Action:
    names, attribute, kind = command.commands, command.attribute, command.kind

    def action(job: Job) -> None:
        name = job.given(*names)
        value = job.value(name)
        if value is not None:
            job.made[attribute] = _text(job, name, value, kind)

    return action


def _text(job: Job, name: str, value: str, kind: CommandType) -> str:
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
            raise job.wrong(name, "this must be a signal, as SIGTERM or 15")
        return string_text(signal)
    if kind is CommandType.UNQUOTED:
        return string_text(stripped(value))
    if kind is CommandType.LIST:
        return string_text(",".join(word for word in re.split(r"[,\s]+", value) if word))
    if kind is CommandType.PATH:
        return string_text(full_path(value, literal_string(job.attribute("Iwd")) or "/"))
    return string_text(value)


def _afterwards(job: Job) -> None:
    """Set attributes that follow from others."""
    if job.attribute("JobUniverse") == "5" and job.attribute("JobLeaseDuration") is None:
        if default := job.default("JOB_DEFAULT_LEASE_DURATION"):
            job.made["JobLeaseDuration"] = default
    elif isinstance(lease := literal(job.attribute("JobLeaseDuration")), int | float) and 0 < int(lease) < 20:
        job.warn("JobLeaseDuration less than 20 seconds is not allowed, using 20 instead")
        job.made["JobLeaseDuration"] = "20"
    if job.attribute("SuccessCheckpointExitCode") is not None:
        job.made["WantFTOnCheckpoint"] = "true"
    if job.attribute("JobStarterLog") is not None and job.attribute("JobStarterDebug") is None:
        job.made["JobStarterDebug"] = "true"
    who = literal_string(job.attribute("NotifyUser")) or ""
    if who.lower() in ("false", "never"):
        job.warn(f"notify_user = {who} sends mail to {who}@{job.facts.uid_domain}; for none write notification = never")


def forced(command: str, attribute: str) -> Section:
    """Return the section of ``+Attribute``, which overrides any other command's value."""

    def action(job: Job) -> None:
        if job.value(command) is None:
            job.made[attribute] = "undefined"
            return
        job.made[attribute] = job.expression(command)

    return Section(action, (command,), (attribute,))


def _stdio(attribute: str, word: str) -> Section:
    low = attribute.lower()
    commands = (word, f"std{low}", f"transfer_{word}", f"transfer{low}", f"stream_{word}", f"stream{low}")
    sets = (attribute, f"Transfer{attribute}", f"Stream{attribute}")
    return Section(_stream(attribute, word), commands, sets, verbatim=Verbatim(word, attribute, commands[1:2]))


FIRST: tuple[Section, ...] = (
    Section(
        _universe,
        (
            *("universe", "jobuniverse", "deferral_time", "deferraltime"),
            *(*container_commands.IMAGES, *(name for name, _ in REFUSED)),
        ),
        ("JobUniverse", "KillSig", *container_commands.WANTED, "WantDockerImage"),
    ),
    container_commands.IMAGE,
    Section(_iwd, ("initialdir", "iwd", "initial_dir", "job_iwd"), ("Iwd",)),
    Section(
        _executable,
        ("executable", "cmd", "shell", "transfer_executable", "transferexecutable"),
        ("Cmd", "TransferExecutable"),
        reads=container_commands.WANTED,
    ),
    Section(
        _arguments,
        ("arguments", "args", "arguments2", "shell", "allow_arguments_v1"),
        ("Args", "Arguments"),
        verbatim=Verbatim("arguments", "Args", ("args",)),
    ),
    Section(
        _environment,
        ("environment", "env", "environment2", "getenv", "get_env", "allow_environment_v1"),
        ("Environment", "Env", "EnvDelim"),
    ),
    Section(_status, ("hold",), ("JobStatus", "HoldReason", "HoldReasonCode")),
    _stdio("In", "input"),
    _stdio("Out", "output"),
    _stdio("Err", "error"),
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
    *map(simple, SIMPLE),
    Section(
        _deferral,
        (
            *("deferral_time", "deferraltime", "cron_window", "cronwindow", "deferral_window", "deferralwindow"),
            *("cron_prep_time", "cronpreptime", "deferral_prep_time", "deferralpreptime"),
        ),
        ("DeferralTime", "DeferralWindow", "DeferralPrepTime", "ScheddInterval"),
        reads=_DEFERRED_BY,
    ),
)
LAST: tuple[Section, ...] = (
    Section(
        _afterwards,
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
