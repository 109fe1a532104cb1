"""The file transfer plugins of a machine: which are configured, and which URL schemes they support.

FILETRANSFER_PLUGINS lists programs. When called with ``-classad``, a program reports the schemes that it supports. If
two programs support a scheme, the later one is used. Where HTCondor's own curl_plugin and data_plugin are not
installed, Poolbook's plugin replaces them. Source: the manual's "Enabling the Transfer of Files Specified by a URL" and
"File Transfer Plug-Ins"."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from attrs import field, frozen

from ...domain.classad import ClassAd, ClassAdSyntaxError, EvaluationError, parse
from ...domain.config import Configuration
from ...domain.events import Ad
from ...domain.state.job_ad import quoted, unquoted
from .execution.client import PROGRAM
from .execution.supervisor.url_plugin import SCHEMES

ENABLED: Final = "ENABLE_URL_TRANSFERS"
PLUGINS: Final = "FILETRANSFER_PLUGINS"
PATIENCE: Final = "FILETRANSFER_PLUGIN_CLASSAD_TIMEOUT"
_PATIENCE_S = 20
_OWN: Final[Mapping[str, tuple[str, ...]]] = {"curl_plugin": ("file", "ftp", "http", "https"), "data_plugin": ("data",)}
"""The HTCondor plugins that Poolbook's own replaces, and the schemes that it supports instead."""


@frozen
class Plugin:
    """A plugin's report: its URL schemes, its attributes for slots, and why it is not used (empty if it is used)."""

    methods: tuple[str, ...] = ()
    attributes: Ad = field(factory=dict)
    fault: str = ""


def plugins_by_method(configuration: Configuration | None = None) -> dict[str, tuple[str, ...]]:
    return {method: command for command, plugin in _installed_plugins(configuration) for method in plugin.methods}


def plugin_attributes(configuration: Configuration | None = None) -> Ad:
    """Return the attributes of the plugins for a machine's slots."""
    if configuration is not None and not configuration.boolean(ENABLED, True):
        return {}
    methods = ",".join(sorted(plugins_by_method(configuration)))
    ad = {"HasFileTransferPluginMethods": quoted(methods), "HasJobTransferPlugins": "true"}
    for _, plugin in _installed_plugins(configuration):
        ad |= plugin.attributes
    return ad


def plugin_problems(configuration: Configuration) -> list[str]:
    """Return a sentence for each configured plugin that cannot be used."""
    if configuration.source(PLUGINS).kind == "default":
        return []
    plugins = _installed_plugins(configuration)
    return [f"{PLUGINS}: {command[-1]}: {plugin.fault}" for command, plugin in plugins if plugin.fault]


def _installed_plugins(configuration: Configuration | None) -> Iterator[tuple[tuple[str, ...], Plugin]]:
    own_command = (sys.executable, "-I", "-S", str(PROGRAM), "url_plugin")
    if configuration is None:
        yield own_command, Plugin(tuple(SCHEMES))
        return
    if not configuration.boolean(ENABLED, True):
        return
    seconds = configuration.integer(PATIENCE, _PATIENCE_S)
    for path in (name.strip() for name in configuration.get(PLUGINS).split(",")):
        name = os.path.basename(path)
        try:
            info = os.stat(path)
        except OSError as error:
            if name in _OWN:
                yield own_command, Plugin(_OWN[name])
            elif path:
                yield (path,), Plugin(fault=f"{error.strerror}: it is ignored")
            continue
        yield (path,), _query_plugin(path, info.st_mtime_ns, seconds)


@cache
def _query_plugin(path: str, _changed_ns: int, seconds: int) -> Plugin:
    """Ask a plugin what it supports; ask again only after its file has changed."""
    try:
        completed = subprocess.run(
            [path, "-classad"], capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Plugin(fault=f"{path} -classad failed ({error}): it is ignored")
    pairs = (line.partition("=") for line in completed.stdout.splitlines())
    lines = {name.strip().lower(): (name.strip(), text.strip()) for name, equals, text in pairs if equals}
    texts = {key: text for key, (_, text) in lines.items()}
    methods = tuple(name for each in unquoted(texts.get("supportedmethods", "")).split(",") if (name := each.strip()))
    if not methods:
        return Plugin(fault="its -classad names no SupportedMethods: it is ignored")
    if texts.get("multiplefilesupport", "").lower() != "true":
        return Plugin(fault="it moves one file at a time (protocol 1), which is not supported: it is ignored")
    names = (name.strip().lower() for name in unquoted(texts.get("startdattrs", "")).split(","))
    attributes = {lines[key][0]: lines[key][1] for key in names if key in lines and _is_expression(lines[key][1])}
    return Plugin(tuple(method.lower() for method in methods), attributes)


def _is_expression(text: str) -> bool:
    try:
        parse(text).evaluate(ClassAd())
    except (ClassAdSyntaxError, EvaluationError):
        return False
    return True
