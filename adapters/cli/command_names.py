"""Other names of commands: HTCondor's own, and those of tools without a counterpart, with what to use instead."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

PREFIX = "condor_"
SAME = {"config_val": "config", "vacate_job": "vacate", "master": "serve", "analyze": "why"}
"""HTCondor's tools that Poolbook has under another name."""

_NO_DAGS = "Poolbook runs no DAGs: submit what comes next when `poolbook run` of what came before has ended"
_NO_CREDENTIALS = "there are no tokens and passwords here: whoever may write the log's file may use the pool"
_ONE_PROCESS = "a pool is one process: `poolbook serve` is schedd, startd, negotiator and collector"
INSTEAD = {
    "wait": "`poolbook run` and `poolbook resume` wait for jobs to end; `poolbook q` shows which are left",
    "tail": "jobs write their output where it belongs: `poolbook q JOB -af Iwd Out Err` names the files for `tail -f`",
    "ssh_to_job": "jobs run on this machine: `poolbook log JOB` has the pid of its process",
    "watch_q": "`watch poolbook q` shows the queue again and again",
    "top": "`watch poolbook q -run` shows what runs, `top` what it uses",
    "qedit": "from Python: `Pool.edit` changes jobs' attributes; `poolbook prio` changes their priority",
    "transfer_data": "jobs write their output where it belongs: there is nothing to fetch",
    "submit_dag": _NO_DAGS,
    "dagman": _NO_DAGS,
    "dag_checker": _NO_DAGS,
    "who": "`poolbook q -all -run` shows whose jobs run, and where",
    "whoami": "you are who you are on this machine: `poolbook q` shows your jobs, `poolbook q -all` everyone's",
    "ping": "`poolbook status` shows whether the pool's log can be read, and its slots",
    "now": "`poolbook vacate JOB` makes room, and `poolbook prio` says who is next",
    "userlog": "`poolbook why JOB` tells a job's life; `poolbook import` reads job event logs",
    "check_userlogs": "`poolbook import` reads job event logs, and `poolbook audit` judges them",
    "evicted_files": "jobs keep their files in their own folder: there is no spool to look into",
    "qusers": "`poolbook userprio` shows the users; whoever may write the log's file may submit",
    "qsub": "`poolbook submit` takes HTCondor's submit files",
    "restart": "stop `poolbook serve` and start it again",
    "set_shutdown": "`poolbook off` takes a machine out of the pool",
    "fetchlog": "`poolbook log` prints what happened; there are no daemons with logs of their own",
    "gather_info": "`poolbook verify` checks the log, `poolbook log` prints it: attach both",
    "chirp": "jobs reach their files directly",
    "run": "write a submit file, and `poolbook run` it",
    "store_cred": _NO_CREDENTIALS,
    "token_create": _NO_CREDENTIALS,
    "token_request": _NO_CREDENTIALS,
    "token_fetch": _NO_CREDENTIALS,
    "token_list": _NO_CREDENTIALS,
    "schedd": _ONE_PROCESS,
    "startd": _ONE_PROCESS,
    "negotiator": _ONE_PROCESS,
    "collector": _ONE_PROCESS,
    "router_q": "there is no job router",
    "router_history": "there is no job router",
    "router_rm": "there is no job router",
    "stats": "`poolbook usage` shows who used how much, `poolbook status -total` the slots by state",
    "convert_history": "`poolbook import` reads a history file as it is",
    "test_match": "`poolbook why JOB` tells why a job does not match",
    "watch": "`watch poolbook q` shows the queue again and again",
    "edit": "from Python: `Pool.edit` changes jobs' attributes; `poolbook prio` changes their priority",
    "ls": "`poolbook q` shows the jobs, `poolbook status` the slots",
    "jobs": "`poolbook q` shows the jobs",
    "kill": "`poolbook rm` removes jobs",
    "start": "`poolbook serve` starts the pool",
    "stop": "Ctrl-C ends `poolbook serve`; `poolbook off` takes a machine out of the pool",
    "logs": "`poolbook log` prints what happened",
}
"""Tools and words without a command: what does the same, or why nothing does."""


def aliases() -> Mapping[str, Sequence[str]]:
    """Return the other names of each command, without HTCondor's prefix."""
    found: dict[str, list[str]] = {}
    for other, name in SAME.items():
        found.setdefault(name, []).append(other)
    return found


def meant(name: str, commands: Collection[str]) -> str:
    """Return the command that a word means; empty if none."""
    plain = name.removeprefix(PREFIX)
    if name in commands:
        return name
    if name != plain and plain in commands and plain not in INSTEAD:
        return plain
    return SAME.get(plain, "")


def unknown(name: str, commands: Iterable[str]) -> str:
    """Return the message for a word that means no command."""
    from ...domain.suggestions import did_you_mean

    plain = name.removeprefix(PREFIX)
    if plain in INSTEAD:
        return f"poolbook: there is no command {name}: {INSTEAD[plain]}"
    if hint := did_you_mean(plain, commands):
        return f"poolbook: there is no command {name!r}; {hint}"
    if name != plain:
        return f"poolbook: Poolbook has no counterpart of {name}; `poolbook -help` lists its commands"
    return f"poolbook: there is no command {name!r}; `poolbook -help` lists the commands"
