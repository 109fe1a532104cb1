"""condor_adstash: index the history of jobs in a search engine, or write it to files. Its options are the same."""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ..adstash.fields import Fields, fields_of
from ..condor_tools.tool_options import ToolEnded, usage_of
from .common import default_log

if TYPE_CHECKING:
    from ...domain.config import Configuration
    from ..adstash.destinations import Destination

_KINDS: Final = ("history", "job_epoch_history", "transfer_epoch_history")
_SWITCHES: Final = {
    "standalone": "run once", "schedd_history": "read the jobs that have left the queue",
    "schedd_job_epoch_history": "read the runs of jobs that have ended",
    "schedd_transfer_epoch_history": "read the file transfers that have ended",
    "startd_history": "read the runs that have ended, as the startd records them", "quiet": "print nothing",
    "se_use_https": "use HTTPS", "dry_run": "same as --interface null", "read_only": "same as --interface null",
    "json_local": "same as --interface jsonfile", "se_no_log_mappings": "write no file with mappings and settings",
    "init_index": "write the files that set up an index, and exit", "no_alias": "set up an index without an alias",
    "no_ilm": "set up no policy for the life cycle of indexes", "no_template": "set up no template of indexes",
}  # fmt: skip
_VALUES: Final = {
    "process_name": "prefix of the settings (default: ADSTASH)", "sample_interval": "seconds between runs",
    "checkpoint_file": "file with the positions up to which ads were sent", "se_host": "HOST[:PORT]",
    "se_url_prefix": "prefix of the path", "se_username": "user of the search engine", "se_timeout": "seconds",
    "se_bunch_size": "the most documents in a request", "se_index_name": "index or alias",
    "se_ca_certs": "file with certificates", "json_dir": "directory for files", "ad_file": "a history file to read",
    "schedd_history_max_ads": "the most ads in a run", "startd_history_max_ads": "the same for --startd_history",
    "log_file": "file for mappings; its directory is used",
    "init_output_directory": "directory for the files of --init_index", "se_password": argparse.SUPPRESS,
    "schedd_history_projection": "attributes of jobs and runs to send", "custom_ignore_attrs": "attributes not to send",
    "startd_history_projection": "the same for --startd_history", "custom_field_properties": "JSON file: fields",
    "custom_dynamic_templates": "JSON file: templates", "custom_index_settings": "JSON file: settings of an index",
}  # fmt: skip
_UNSUPPORTED: Final = {
    "collectors": "a log is one pool", "schedds": "a log is one pool", "ignore_schedds": "a log is one pool",
    "startds": "a log is one pool", "ignore_startds": "a log is one pool",
    "threads": "a log is read by one thread", "startd_history_timeout": "a log is read at once",
    "schedd_history_timeout": "a log is read at once", "log_level": "all messages are printed; -q prints none",
}  # fmt: skip
"""condor_adstash's options that have no effect here, with the reason."""


def adstash(argv: Sequence[str]) -> int:
    from ...domain.config import ConfigError
    from ..adstash.destinations import StashError
    from ..runtime.configuration import load

    if {"-h", "-help", "--help"} & set(argv):
        raise ToolEnded(0, out=usage_of("adstash"))
    options = _parser().parse_args(list(argv))
    for name, reason in _UNSUPPORTED.items():
        if getattr(options, name) is not None:
            raise ToolEnded(1, f"condor_adstash: --{name} is not supported{': ' + reason if reason else ''}\n")
    try:
        settings = _Settings(options, load(subsystem="ADSTASH"))
        if options.init_index:
            return _write_index_files(settings)
        while True:
            _run_once(settings)
            if options.standalone or options.ad_file is not None:
                return 0
            seconds = settings.integer("sample_interval", "ADSTASH_SAMPLE_INTERVAL", 1200)
            if select.select([sys.stdin] if options.stdin else [], [], [], seconds)[0]:
                return 0
    except (ConfigError, StashError) as error:
        raise ToolEnded(1, f"condor_adstash: {error}\n") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("condor_adstash", add_help=False)
    for name, text in _SWITCHES.items():
        short = ["-q"] if name == "quiet" else []
        parser.add_argument(*short, f"--{name}", *_older(name), action="store_true", help=text)
    for name, text in _VALUES.items():
        parser.add_argument(f"--{name}", *_older(name), help=text)
    names = ("null", "elasticsearch", "opensearch", "jsonfile", "jsonlines", "parquet")
    parser.add_argument("--interface", choices=names, help="where the documents go (default: elasticsearch)")
    parser.add_argument("--ad_file_type", choices=_KINDS, default="history", help="kind of ads in --ad_file")
    parser.add_argument("--init_ad_type", choices=_KINDS, default="history", help="kind of ads for --init_index")
    parser.add_argument("-stdin", action="store_true", help="also stop at the end of standard input")
    for name in _UNSUPPORTED:
        parser.add_argument(f"--{name}", nargs="?", const="", help=argparse.SUPPRESS)
    return parser


def _older(name: str) -> list[str]:
    """Return the deprecated spelling of an option."""
    if name == "se_ca_certs":
        return ["--ca_certs"]
    has_older = name in ("se_host", "se_username", "se_password", "se_use_https", "se_timeout", "se_bunch_size",
                         "se_index_name")  # fmt: skip
    return [f"--es_{name[3:]}"] if has_older else []


class _Settings:
    """The options, with the settings ADSTASH_... as defaults."""

    def __init__(self, options: argparse.Namespace, configuration: Configuration) -> None:
        self.options, self.configuration = options, configuration
        self.prefix = options.process_name or "ADSTASH"

    def name(self, setting: str) -> str:
        """Return the setting's name for this process, which --process_name can change."""
        return setting.replace("ADSTASH", self.prefix, 1)

    def text(self, option: str, setting: str, default: str = "") -> str:
        given = getattr(self.options, option)
        return given if given is not None else self.configuration.get(self.name(setting)).strip() or default

    def names(self, option: str) -> list[str]:
        return self.text(option, f"ADSTASH_{option.upper()}").replace(",", " ").split()

    def json(self, option: str, empty: Any) -> Any:
        """Return the contents of a JSON file that an option names."""
        path = self.text(option, f"ADSTASH_{option.upper()}")
        if not path:
            return empty
        try:
            contents = json.loads(Path(path).read_text())
        except OSError as error:
            raise ToolEnded(2, f"condor_adstash: --{option} {path}: {error.strerror}\n") from None
        except ValueError as error:
            raise ToolEnded(1, f"condor_adstash: --{option} {path} is not JSON: {error}\n") from None
        if type(contents) is not type(empty):
            kind = "an object" if isinstance(empty, dict) else "a list"
            raise ToolEnded(1, f"condor_adstash: --{option} {path} must contain {kind}\n")
        return contents

    def fields(self, kind: str, daemon: str = "") -> Fields:
        """Return the fields of a kind of ads, as the administrator defines and selects them."""
        properties, settings = self.json("custom_field_properties", {}), self.json("custom_index_settings", {})
        templates = self.json("custom_dynamic_templates", [])
        chosen = self.names(f"{daemon}_history_projection") if daemon else ()
        try:
            fields = fields_of(kind).customized(properties, templates, settings)
        except (ValueError, AttributeError) as error:
            raise ToolEnded(1, f"condor_adstash: --custom_...: {error}\n") from None
        return fields.narrowed(chosen, self.names("custom_ignore_attrs"))

    def integer(self, option: str, setting: str, default: int) -> int:
        text = self.text(option, setting, str(default))
        if not text.isdecimal():
            raise ToolEnded(1, f"condor_adstash: --{option} must be a number, not {text}\n")
        return int(text)

    def boolean(self, option: str, setting: str) -> bool:
        return bool(getattr(self.options, option)) or self.configuration.boolean(self.name(setting), False)

    def say(self, text: str) -> None:
        if not self.options.quiet:
            print(text, file=sys.stderr, flush=True)


def _destination(settings: _Settings) -> Destination:
    from ..adstash.destinations import JsonFiles, JsonLines, Nowhere, ParquetFiles, SearchEngine

    interface = settings.text("interface", "ADSTASH_INTERFACE", "elasticsearch")
    options, folder = settings.options, Path(settings.text("json_dir", "ADSTASH_JSON_DIR", "."))
    index = settings.text("se_index_name", "ADSTASH_SE_INDEX_NAME", "htcondor")
    if options.dry_run or options.read_only or interface == "null":
        return Nowhere()
    if options.json_local or interface == "jsonfile":
        return JsonFiles(folder)
    if interface in ("jsonlines", "parquet"):
        return JsonLines(folder / f"{index}.jsonl") if interface == "jsonlines" else ParquetFiles(folder)
    scheme = "https" if settings.boolean("se_use_https", "ADSTASH_SE_USE_HTTPS") else "http"
    host = settings.text("se_host", "ADSTASH_SE_HOST", "localhost:9200")
    prefix = settings.text("se_url_prefix", "ADSTASH_SE_URL_PREFIX").strip("/")
    url = f"{scheme}://{host if ':' in host else f'{host}:9200'}" + (f"/{prefix}" if prefix else "")
    user, folder = (
        settings.text("se_username", "ADSTASH_SE_USERNAME"),
        Path(settings.text("log_file", "ADSTASH_LOG", "adstash.log")),
    )
    logs = not options.se_no_log_mappings and settings.configuration.boolean(
        settings.name("ADSTASH_SE_LOG_MAPPINGS"), True
    )
    return SearchEngine(
        url, index, (user, _password(settings)) if user else None,
        settings.text("se_ca_certs", "ADSTASH_SE_CA_CERTS") or None,
        settings.integer("se_timeout", "ADSTASH_SE_TIMEOUT", 240),
        settings.integer("se_bunch_size", "ADSTASH_SE_BUNCH_SIZE", 250),
        folder.parent if logs and folder.parent.is_dir() else None,
    )  # fmt: skip


def _password(settings: _Settings) -> str:
    if settings.options.se_password is not None:
        return str(settings.options.se_password)
    path = settings.configuration.get(settings.name("ADSTASH_SE_PASSWORD_FILE")).strip()
    if not path:
        return os.environ.get("_CONDOR_ADSTASH_SE_PASSWORD", "")
    try:
        return Path(path).read_text().strip()
    except OSError as error:
        raise ToolEnded(1, f"condor_adstash: ADSTASH_SE_PASSWORD_FILE = {path}: {error.strerror}\n") from None


def _run_once(settings: _Settings) -> None:
    from ..adstash.stash import SOURCES, Checkpoint, stash_file, stash_log

    destination, options = _destination(settings), settings.options
    if options.ad_file is not None:
        settings.say(
            f"{stash_file(options.ad_file, settings.fields(options.ad_file_type), destination):,} documents sent"
        )
        return
    checkpoint = Checkpoint(
        Path(settings.text("checkpoint_file", "ADSTASH_CHECKPOINT_FILE", "adstash_checkpoint.json"))
    )
    sources = [source for source in SOURCES if settings.boolean(source, f"ADSTASH_{source.upper()}")]
    if not sources:
        raise ToolEnded(1, f"condor_adstash: choose what to read: {' or '.join(f'--{name}' for name in SOURCES)}\n")
    say: Callable[[str], None] = settings.say
    for source in sources:
        limit = "startd_history_max_ads" if source == "startd_history" else "schedd_history_max_ads"
        most = settings.integer(limit, f"ADSTASH_{limit.upper()}", 10_000)
        fields = settings.fields(SOURCES[source].kind, source.partition("_")[0])
        count = stash_log(default_log(), source, destination, checkpoint, most, say, fields)
        settings.say(f"{source}: {count:,} new documents")


def _write_index_files(settings: _Settings) -> int:
    """Write the files with which an administrator sets up an index."""
    from ..adstash.index_files import index_files

    options = settings.options
    folder = Path(options.init_output_directory or ".")
    index = settings.text("se_index_name", "ADSTASH_SE_INDEX_NAME", "htcondor")
    if options.no_alias and not options.no_ilm:
        raise ToolEnded(1, "condor_adstash: a policy for the life cycle of indexes needs an alias; add --no_ilm\n")
    fields = settings.fields(options.init_ad_type)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in index_files(index, fields, not options.no_alias, not options.no_ilm, not options.no_template):
        (folder / name).write_text(text)
        settings.say(f"wrote {folder / name}")
    return 0
