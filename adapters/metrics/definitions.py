"""Read metric definitions: files of ClassAds, in HTCondor's syntax (``ganglia.d``, ``metrics.d``)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ...domain.classad import ClassAd, ClassAdSyntaxError, Expression, parse
from ...domain.config import ConfigError
from ..bounded_text import read_text


def read_definitions(folder: str, max_verbosity: int, defaults: Mapping[str, str]) -> list[ClassAd]:
    """Return the definitions in all files of a folder, sorted by file name, whose verbosity is not above a maximum.

    :param defaults: expressions for attributes that a definition lacks, such as ``Cluster``
    :raises ConfigError: if a file or a definition cannot be read; HTCondor's daemon exits in this case
    """
    model = {name: _parse_default(name, text) for name, text in defaults.items() if text.strip()}
    definitions = []
    for path in _files(folder):
        for ad in _ads_in(path):
            definition = ClassAd({**model, **dict(ad.items())})
            if not isinstance(definition.eval("TargetType"), str):
                raise ConfigError(
                    f"{path}: the metric {ad.get('Name', 'without a name')} has no TargetType. Each metric needs the "
                    'type of the ads that it describes, such as TargetType = "Scheduler" (or "Any")'
                )
            if integer(definition, "Verbosity") <= max_verbosity:
                definitions.append(definition)
    return definitions


def integer(ad: ClassAd, name: str) -> int:
    """Return an attribute's value, or 0 if it is not an integer."""
    value = ad.eval(name)
    return value if type(value) is int else 0


def _parse_default(name: str, text: str) -> Expression:
    try:
        return parse(text)
    except ClassAdSyntaxError as error:
        raise ConfigError(f"the default for {name} is not a ClassAd expression: {error}") from None


def _files(folder: str) -> Iterator[str]:
    """Yield the files of a folder that HTCondor would read, that is, all but hidden ones."""
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise ConfigError(
            f"metric definitions cannot be read from {folder}: {error.strerror}. The setting "
            "METRICD_METRICS_CONFIG_DIR (or GANGLIAD_METRICS_CONFIG_DIR) names the folder"
        ) from None
    for name in names:
        path = os.path.join(folder, name)
        if not name.startswith(".") and os.path.isfile(path):
            yield path


def _ads_in(path: str) -> list[ClassAd]:
    try:
        return ClassAd.all_from_new(read_text(path))
    except ClassAdSyntaxError as error:
        raise ConfigError(f"{path}: error in a metric definition: {error}") from None
