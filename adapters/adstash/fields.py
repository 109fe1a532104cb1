"""The types of fields: of known attributes (``fields.txt``), and of others by their names (``TEMPLATES``).

Source: condor_adstash's mappings (adstash/mapping/).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

from attrs import evolve, frozen

HISTORY, EPOCHS, TRANSFERS = "history", "job_epoch_history", "transfer_epoch_history"
KINDS: Final = (HISTORY, EPOCHS, TRANSFERS)
IGNORED: Final = "ignored"
KEYWORD_LENGTH: Final = 32766  #: the longest text that Lucene indexes as a whole
_DATE: Final = {"type": "date", "format": "epoch_second||strict_date_optional_time"}
_KEYWORD: Final = {"type": "keyword", "ignore_above": KEYWORD_LENGTH}
_UNINDEXED_TEXT: Final = {"type": "text", "norms": "false", "index": "false"}
MAPPINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "text": {"type": "text"}, "unindexed text": _UNINDEXED_TEXT, "keyword": _KEYWORD, "double": {"type": "double"},
    "long": {"type": "long"}, "date": _DATE, "boolean": {"type": "boolean"},
    "object": {"type": "object", "dynamic": True}, "nested": {"type": "nested", "dynamic": True},
}  # fmt: skip
"""What the search engine stores, by the type of a field."""
_TIMES: Final = ("condor_adstash_runtime", "condor_history_runtime")
_ABOUT: Final = (
    "condor_adstash_hostname", "condor_adstash_username", "condor_adstash_version", "condor_adstash_platform",
    "condor_adstash_source", "condor_history_host_platform", "condor_history_host_version", "condor_history_host_name",
)  # fmt: skip


@frozen
class Template:
    """A rule for the names of other attributes: a glob, or a regular expression for the whole name."""

    name: str
    match: str
    type: str
    kinds: tuple[str, ...] = KINDS
    is_regex: bool = False

    def fits(self, attribute: str) -> bool:
        pattern = self.match if self.is_regex else re.escape(self.match).replace(r"\*", ".*")
        return re.fullmatch(pattern, attribute) is not None

    def definition(self, kind: str) -> dict[str, Any]:
        mapping = _UNINDEXED_TEXT if kind == TRANSFERS and self.match == "*_EXPR" else MAPPINGS[self.type]
        pattern = {"match_pattern": "regex"} if self.is_regex else {}
        return {self.name: {**pattern, "match": self.match, "mapping": dict(mapping)}}


_JOBS: Final = (HISTORY, EPOCHS)
_BOOLEANS: Final = "target_bool_attrs"
TEMPLATES: Final = (
    Template("raw_expression", "*_EXPR", "keyword"),
    Template("transformbody_attrs", "TransformBody_*", "keyword", _JOBS),
    Template("date_attrs", "*Date", "date"),
    Template("provisioned_attrs", "*Provisioned", "long", _JOBS),
    Template("num_attrs", "Num[A-Z].*", "long", _JOBS, True),
    Template("stats_attrs", r".+Stats\..+", "double", _JOBS, True),
    Template("counts_attrs", r".+Counts\..+", "long", _JOBS, True),
    Template("resource_request_attrs", "^Request[A-Z].*$", "long", _JOBS, True),
    Template(_BOOLEANS, "(?i)^(Want|Has|Is).+$", "boolean", KINDS, True),
)
_DEFAULT: Final = {"DEFAULT": {"match_mapping_type": "string", "mapping": _KEYWORD}}


@frozen
class Fields:
    """The types of the attributes of one kind of ads. ``spellings``: known names in lower case, as they are spelled."""

    kind: str
    types: Mapping[str, str]
    spellings: Mapping[str, str]
    templates: tuple[Template, ...]
    custom: Mapping[str, Mapping[str, Any]] = {}  #: the administrator's definitions of fields
    custom_templates: tuple[Mapping[str, Any], ...] = ()
    settings: Mapping[str, Any] = {}  #: the administrator's settings of an index
    chosen: frozenset[str] = frozenset()  #: the attributes to write, in lower case; empty: all
    unwanted: frozenset[str] = frozenset()  #: attributes not to write, in lower case

    def is_ignored(self, attribute: str) -> bool:
        name = attribute.lower()
        if name in self.unwanted or self.types.get(self.spellings.get(name, "")) == IGNORED:
            return True
        return bool(self.chosen) and self.chosen.isdisjoint({name, name.partition(".")[0]})

    def field(self, attribute: str) -> tuple[str, str, bool]:
        """Return the name and the type of an attribute's field, and whether it is known. Others are keywords, in lower
        case, unless a template fits."""
        known = self.spellings.get(attribute.lower())
        if known is not None and not (self.chosen and attribute.lower() not in self.chosen):
            return known, self.types[known], True
        template = next((each for each in self.templates if each.fits(attribute)), None)
        if template is None:
            return attribute.lower(), "keyword", False
        return _normalized(attribute) if template.name == _BOOLEANS else attribute, template.type, False

    def mappings(self) -> dict[str, Any]:
        """Return the mappings of an index."""
        properties: dict[str, Any] = {
            name: dict(MAPPINGS[of_type]) for name, of_type in fields_of(self.kind).types.items() if of_type != IGNORED
        }
        properties["metadata"] = {"type": "object"}
        properties |= {f"metadata.{name}": {"type": "keyword"} for name in _ABOUT}
        properties |= {f"metadata.{name}": dict(_DATE) for name in _TIMES}
        custom = {name: each for template in self.custom_templates for name, each in template.items()}
        names = {"CUSTOM_DEFAULT" if name == "DEFAULT" else name: each for name, each in custom.items()}
        templates = [template.definition(self.kind) for template in self.templates if template.name not in custom]
        templates += [{name: each} for name, each in names.items()]
        return {"properties": _merged(self.custom, properties), "dynamic_templates": [*templates, _DEFAULT]}

    def customized(
        self, properties: Mapping[str, Any], templates: Sequence[Mapping[str, Any]], settings: Mapping[str, Any]
    ) -> Fields:
        """Return these fields with an administrator's definitions of fields and templates, and settings of the index.
        Raise `ValueError` if a definition has a type that documents do not have."""
        custom = dict(_flattened(properties))
        types = {name: _type_of(name, definition) for name, definition in custom.items()}
        own = tuple(
            Template(name, each.get("match", ""), _type_of(name, each.get("mapping", {})),
                     is_regex=each.get("match_pattern") == "regex")
            for template in templates for name, each in template.items()
        )  # fmt: skip
        names = {template.name for template in own}
        others = tuple(template for template in self.templates if template.name not in names)
        spellings = {**self.spellings, **{name.lower(): name for name in custom}}
        return evolve(
            self, types={**self.types, **types}, spellings=spellings, templates=(*others, *own), custom=custom,
            custom_templates=tuple(templates), settings=dict(_settings(settings)),
        )  # fmt: skip

    def narrowed(self, chosen: Collection[str], unwanted: Collection[str]) -> Fields:
        """Return these fields without attributes that are unwanted or, if some are chosen, are neither chosen nor
        needed to identify a document. Of transfers, all attributes are written."""
        if self.kind == TRANSFERS:
            return self
        needed = (*_NEEDED, *(_NEEDED_OF_EPOCHS if self.kind == EPOCHS else ())) if chosen else ()
        lower = (frozenset(map(str.lower, names)) for names in ((*chosen, *needed), unwanted))
        return evolve(self, chosen=next(lower), unwanted=next(lower))


_NEEDED: Final = (
    "ClusterId", "CompletionDate", "EnteredCurrentStatus", "GlobalJobId", "JobStatus", "JobUniverse",
    "LastRemoteHost", "MyType", "ProcId", "RemoteHost",
)  # fmt: skip
_NEEDED_OF_EPOCHS: Final = ("EpochWriteDate", "EpochAdType")


def _flattened(properties: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the definitions of fields and, except of nested ones, of the fields in them."""
    for name, definition in properties.items():
        own = dict(definition)
        if own.get("type") != "nested" and "properties" in own:
            yield from _flattened(own.pop("properties"), f"{parent}{name}.")
            own.setdefault("type", "object")
        yield f"{parent}{name}", own


def _settings(settings: Mapping[str, Any], parent: str = "") -> Iterator[tuple[str, Any]]:
    """Yield settings with complete names, such as ``index.refresh_interval``."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _settings(value, f"{parent}{name}.")
        else:
            yield f"{parent}{name}", value


def _type_of(name: str, definition: Mapping[str, Any]) -> str:
    of_type = str(definition.get("type", "object"))
    of_type = "double" if of_type == "float" else of_type
    if of_type not in MAPPINGS:
        raise ValueError(
            f"{name} has the type {of_type}; use {', '.join(each for each in MAPPINGS if ' ' not in each)}"
        )
    return of_type


def _merged(custom: Mapping[str, Mapping[str, Any]], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of fields; a default of another type becomes a multi-field of the custom definition."""
    merged = {name: dict(definition) for name, definition in custom.items()}
    for name, definition in defaults.items():
        own = merged.setdefault(name, definition)
        types = own.get("type", "object"), definition["type"]
        if own is not definition and types[0] == types[1]:
            merged[name] = {**own, **definition, **({"format": own["format"]} if "format" in own else {})}
        elif own is not definition and not {"object", "nested"}.intersection(types):
            own["fields"] = {types[1]: definition, **own.get("fields", {})}
    return merged


@cache
def fields_of(kind: str) -> Fields:
    """Return the fields of history, job_epoch_history or transfer_epoch_history ads."""
    types: dict[str, str] = {}
    section = ""
    for line in files(__package__).joinpath("fields.txt").read_text().splitlines():
        if line.startswith("["):
            section = line.strip("[]")
        elif line and not line.startswith("#"):
            of_kind, _, of_type = section.partition(": ")
            if of_kind == (TRANSFERS if kind == TRANSFERS else HISTORY):
                types |= dict.fromkeys(line.split(), of_type)
    if kind == EPOCHS:
        types |= {"EpochAdType": "keyword", "EpochWriteDate": "date"}
    spellings = {name.lower(): name for name in types}
    return Fields(kind, types, spellings, tuple(each for each in TEMPLATES if kind in each.kinds))


def _normalized(attribute: str) -> str:
    """Return a name such as ``wantFLOCKING`` as ``WantFlocking``, and ``is_x`` as ``Is_X``."""
    prefix = next(each for each in ("want", "has", "is") if attribute.lower().startswith(each))
    rest = attribute[len(prefix) :]
    return prefix.capitalize() + (f"_{rest[1:].capitalize()}" if rest.startswith("_") else rest.capitalize())


def _to_integer(value: Any) -> int:
    try:
        return int(value)
    except (ValueError, TypeError):
        return round(float(value))


def _to_float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


_TRUTHS: Final = {"1": True, "t": True, "true": True, "0": False, "f": False, "false": False}
_TINY: Final = 1e-8


def _to_boolean(value: Any) -> bool:
    if isinstance(value, str) and value.lower() in _TRUTHS:
        return _TRUTHS[value.lower()]
    number = float(value)
    if min(abs(number), abs(number - 1)) < _TINY:
        return number > 1 / 2
    raise ValueError("neither true nor false")


TEXTS: Final = ("text", "unindexed text", "keyword")
CONVERSIONS: Final[Mapping[str, Callable[[Any], Any]]] = dict.fromkeys(TEXTS, str) | {
    "double": _to_float, "long": _to_integer, "date": _to_integer, "boolean": _to_boolean, "object": dict,
}  # fmt: skip
"""Convert a value to the type of a field. They raise an error if it cannot have this type."""
