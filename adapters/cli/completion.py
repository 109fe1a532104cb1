"""``poolbook completion``: print the scripts by which a shell completes commands, options and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ..condor_tools.options import Command, UsageError, command_table, parse
from .command_names import PREFIX, aliases
from .command_tables import FILE_VALUES, options_of, table_of, takes_files
from .main import COMMANDS

COMPLETION = command_table("completion")


def completion(argv: Sequence[str]) -> int:
    arguments = parse(COMPLETION, argv)
    if len(arguments.words) != 1 or arguments.words[0] not in _SCRIPTS:
        raise UsageError(f"poolbook completion: name the shell: {', '.join(_SCRIPTS)}")
    print("\n".join(_SCRIPTS[arguments.words[0]]([table_of(name) for name in COMMANDS])))
    return 0


_OF_COMMANDS = ("help", "man")
"""Commands that take a command's name."""


def _offers() -> dict[tuple[str, str], Sequence[str]]:
    """Return the words that a command, or an option of one, takes where they are few and known."""
    from ...domain.state_machines import DIALECTS
    from ...replay.usage.usage_sums import BY
    from .doc import files

    dialects = {(name, "dialect"): tuple(DIALECTS) for name in ("play", "run", "serve")}
    return {("doc", ""): tuple(files()), ("completion", ""): tuple(_SCRIPTS), ("usage", "by"): BY, **dialects}


def _valued(tables: Sequence[Command], files: bool) -> str:
    """Return the calls after which a value comes, as patterns of a shell's ``case``: of options that take a file, or of
    the others."""
    found = [
        f'"{table.name} -{option.name}"'
        for table in tables
        for option in options_of(table)
        if option.values and (option.values in FILE_VALUES) == files
    ]
    return " | ".join(found)


def _renamed() -> Iterator[str]:
    """Yield the ``case`` branches that turn HTCondor's command names into Poolbook's, for bash and zsh."""
    yield "    case $command in"
    yield from (f"        ({other}) command={name} ;;" for name, others in aliases().items() for other in others)
    yield "    esac"


def _bash(tables: Sequence[Command]) -> Iterator[str]:
    offers = _offers()
    yield from (
        "_poolbook() {",
        "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}",
        f"    local command=${{COMP_WORDS[1]#{PREFIX}}} options= files= offers=",
        f"    local commands='{' '.join([*COMMANDS, 'help'])}'",
        "    COMPREPLY=()",
        f"    if ((COMP_CWORD == 1)) || [[ $command == @({'|'.join(_OF_COMMANDS)}) ]]; then",
        '        COMPREPLY=($(compgen -W "$commands" -- "$cur"))',
        "        return",
        "    fi",
        *_renamed(),
        '    case "$command $prev" in',
        *(
            f"        '{name} -{option}') offers='{' '.join(found)}' ;;"
            for (name, option), found in offers.items()
            if option
        ),
        f"        {_valued(tables, True)}) files=1 ;;",
        f"        {_valued(tables, False)}) return ;;",
        "        *)",
        "            case $command in",
    )
    for table in tables:
        names = " ".join(f"-{option.name}" for option in options_of(table))
        words = " ".join(offers.get((table.name, ""), ()))
        files = "1" if takes_files(table) else ""
        yield f"                {table.name}) options='{names}' files={files} offers='{words}' ;;"
    yield from (
        "            esac ;;",
        "    esac",
        "    if [[ $cur == -* ]]; then",
        '        COMPREPLY=($(compgen -W "$options" -- "$cur"))',
        "    elif [[ $offers ]]; then",
        '        COMPREPLY=($(compgen -W "$offers" -- "$cur"))',
        "    elif [[ $files ]]; then",
        "        compopt -o filenames 2>/dev/null",
        '        mapfile -t COMPREPLY < <(compgen -f -- "$cur")',
        "    fi",
        "}",
        "complete -F _poolbook poolbook",
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


def _zsh(tables: Sequence[Command]) -> Iterator[str]:
    def described(name: str, words: str) -> str:
        return _quoted(f"{name}:{words}")

    offers = _offers()
    commands = " ".join(described(name, entry.words) for name, entry in COMMANDS.items())
    yield from (
        "#compdef poolbook",
        "_poolbook() {",
        "    local -a commands options offers",
        f"    local command=${{words[2]#{PREFIX}}} files=",
        f"    commands=({commands} 'help:the help of a command')",
        f"    if (( CURRENT == 2 )) || [[ $command == ({'|'.join(_OF_COMMANDS)}) ]]; then",
        "        _describe command commands",
        "        return",
        "    fi",
        *_renamed(),
        '    case "$command $words[CURRENT-1]" in',
        *(
            f"        ('{name} -{option}') compadd -- {' '.join(found)}; return ;;"
            for (name, option), found in offers.items()
            if option
        ),
        f"        ({_valued(tables, True)}) _files; return ;;",
        f"        ({_valued(tables, False)}) return ;;",
        "    esac",
        "    case $command in",
    )
    for table in tables:
        options = " ".join(described(f"-{option.name}", option.help) for option in options_of(table))
        words = " ".join(offers.get((table.name, ""), ()))
        files = "1" if takes_files(table) else ""
        yield f"        ({table.name}) options=({options}) files={files} offers=({words}) ;;"
    yield from (
        "    esac",
        "    if [[ $PREFIX == -* ]]; then",
        "        _describe -o option options",
        "    elif (( $#offers )); then",
        "        compadd -- $offers",
        "    elif [[ -n $files ]]; then",
        "        _files",
        "    fi",
        "}",
        "compdef _poolbook poolbook",
    )


def _fish(tables: Sequence[Command]) -> Iterator[str]:
    offers, others = _offers(), aliases()
    yield "complete -c poolbook -f"
    for name, words in [*((name, entry.words) for name, entry in COMMANDS.items()), ("help", "the help of a command")]:
        yield f"complete -c poolbook -n __fish_use_subcommand -a {name} -d {_quoted(words)}"
    for name in _OF_COMMANDS:
        yield f"complete -c poolbook -n '__fish_seen_subcommand_from {name}' -a '{' '.join(COMMANDS)}'"
    for table in tables:
        names = " ".join([*(f"{PREFIX}{other}" for other in (*others.get(table.name, ()), table.name)), table.name])
        seen = f"complete -c poolbook -n '__fish_seen_subcommand_from {names}'"
        if (table.name, "") in offers:
            yield f"{seen} -a '{' '.join(offers[table.name, ''])}'"
        if takes_files(table):
            yield f"{seen} -F"
        for option in options_of(table):
            value = (" -r -F" if option.values in FILE_VALUES else " -x") if option.values else ""
            if (table.name, option.name) in offers:
                value += f" -a '{' '.join(offers[table.name, option.name])}'"
            yield f"{seen} -o {option.name}{value} -d {_quoted(option.help)}"


_SCRIPTS: dict[str, Callable[[Sequence[Command]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
