"""The file transfer plugins of a machine: which are configured, and which schemes of URLs they know.

FILETRANSFER_PLUGINS lists programs, each of which is asked (``-classad``) what it knows; of two that know a scheme the
later one counts. HTCondor's own curl_plugin and data_plugin, where they are not installed, stand for Poolbook's plugin.
Source: the manual's "Enabling the Transfer of Files Specified by a URL" and "File Transfer Plug-Ins".
"""

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
"""HTCondor's plugins that Poolbook's own stands for, and what of them it knows."""


@frozen
class Plugin:
    """What a plugin says of itself: the schemes that it knows, attributes for slots; why it is not used (empty: it
    is)."""

    methods: tuple[str, ...] = ()
    attributes: Ad = field(factory=dict)
    fault: str = ""


def plugins_by_method(configuration: Configuration | None = None) -> dict[str, tuple[str, ...]]:
    """Return, by schemes of URLs, the words of the commands that move their files."""
    return {method: words for words, plugin in _installed(configuration) for method in plugin.methods}


def advertised(configuration: Configuration | None = None) -> Ad:
    """Return what a machine's slots say of its plugins."""
    if configuration is not None and not configuration.boolean(ENABLED, True):
        return {}
    methods = ",".join(sorted(plugins_by_method(configuration)))
    ad = {"HasFileTransferPluginMethods": quoted(methods), "HasJobTransferPlugins": "true"}
    for _, plugin in _installed(configuration):
        ad |= plugin.attributes
    return ad


def faults(configuration: Configuration) -> list[str]:
    """Return a sentence for each configured plugin that cannot be used."""
    if configuration.source(PLUGINS).kind == "default":
        return []
    return [f"{PLUGINS}: {words[-1]}: {plugin.fault}" for words, plugin in _installed(configuration) if plugin.fault]


def _installed(configuration: Configuration | None) -> Iterator[tuple[tuple[str, ...], Plugin]]:
    """Yield the commands of all plugins, with what they say."""
    own = (sys.executable, "-I", "-S", str(PROGRAM), "url_plugin")
    if configuration is None:
        yield own, Plugin(tuple(SCHEMES))
        return
    if not configuration.boolean(ENABLED, True):
        return
    seconds = configuration.integer(PATIENCE, _PATIENCE_S)
    for path in (name.strip() for name in configuration.get(PLUGINS).split(",")):
        name = os.path.basename(path)
        try:
            found = os.stat(path)
        except OSError as error:
            if name in _OWN:
                yield own, Plugin(_OWN[name])
            elif path:
                yield (path,), Plugin(fault=f"{error.strerror}: it is left out")
            continue
        yield (path,), _asked(path, found.st_mtime_ns, seconds)


@cache
def _asked(path: str, _changed_ns: int, seconds: int) -> Plugin:
    """Ask a plugin what it knows, again only when its file has changed."""
    try:
        done = subprocess.run(
            [path, "-classad"], capture_output=True, text=True, errors="replace", timeout=seconds, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Plugin(fault=f"it does not answer {path} -classad ({error}): it is left out")
    lines = (line.partition("=") for line in done.stdout.splitlines())
    told = {name.strip().lower(): (name.strip(), text.strip()) for name, equals, text in lines if equals}
    said = {key: text for key, (_, text) in told.items()}
    methods = tuple(name for each in unquoted(said.get("supportedmethods", "")).split(",") if (name := each.strip()))
    if not methods:
        return Plugin(fault="its -classad names no SupportedMethods: it is left out")
    if said.get("multiplefilesupport", "").lower() != "true":
        return Plugin(fault="it moves one file at a time (protocol 1), which Poolbook does not: it is left out")
    names = (name.strip().lower() for name in unquoted(said.get("startdattrs", "")).split(","))
    attributes = {told[key][0]: told[key][1] for key in names if key in told and _is_expression(told[key][1])}
    return Plugin(tuple(method.lower() for method in methods), attributes)


def _is_expression(text: str) -> bool:
    try:
        parse(text).evaluate(ClassAd())
    except (ClassAdSyntaxError, EvaluationError):
        return False
    return True
