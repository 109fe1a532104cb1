"""The options of condor_gpu_discovery, parsed as in HTCondor's condor_gpu_discovery.cpp."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from attrs import define, field

from ..condor_tools.options import Option
from ..condor_tools.tool_options import ToolEnded, tool, usage_of
from .simulated import MODELS, simulated_models

TOOL: Final = tool("gpu_discovery")
"""The second column of the options has the changes of fields of `DiscoveryOptions`; ``NAME=`` means False."""
_LONGEST_PREFIX: Final = 80


@define
class DiscoveryOptions:
    """What condor_gpu_discovery's options select."""

    properties: bool = False
    extra: bool = False
    dynamic: bool = False
    mixed: bool = False
    nested: bool = True
    cron: bool = False
    config: bool = False
    packed: bool = False
    divide: bool = False
    repeat: int = 0
    ids: str = ""  #: how devices are named: ``uuid``, ``short`` or ``index``; empty: short, or index without UUIDs
    tag: str = "GPUs"
    prefix: str | None = None
    devices: set[str] = field(factory=set)
    cuda: bool = False
    hip: bool = False
    opencl: bool = False
    has_order: bool = False  #: at least one of -cuda, -hip and -opencl was given
    nvcuda: bool = False
    cudart: bool = False
    clean_environment: bool = True
    verbose: bool = False
    diagnostic: bool = False
    simulate: bool = False
    models: list[int] = field(factory=list)  #: the simulated GPUs
    hip_guid_model: int = 0
    simulated_hip: int = 0


def parse_discovery_options(argv: Sequence[str], program: str = "condor_gpu_discovery") -> DiscoveryOptions:
    """Return the options. Raise `ToolEnded` for -help, and if the command line is not valid."""
    options = DiscoveryOptions()
    words = list(argv)
    while words:
        word = words.pop(0)
        option, qualifier = _find_option(word)
        name = option.name if option else ""
        if option and option.help:
            for field_name, equals, value in (change.partition("=") for change in option.help.split()):
                setattr(options, field_name, value or not equals)
        elif name == "help":
            raise ToolEnded(0, out=_usage(program))
        elif name in ("repeat", "divide"):
            options.repeat = _leading_number(words.pop(0)) if _has_value(words) else options.repeat or 2
            options.divide = name == "divide"
        elif name == "tag":
            options.tag = words.pop(0) if words else options.tag
        elif name == "prefix":
            options.prefix = words.pop(0) if words else options.prefix
            if options.prefix is not None and len(options.prefix.encode()) > _LONGEST_PREFIX:
                raise ToolEnded(1, "Error: -prefix should be less than 80 characters\n")
        elif name == "device":
            if not _has_value(words):
                raise ToolEnded(1, f"Error: -device requires an argument\n{_usage(program)}")
            options.devices |= device_names(words.pop(0))
        elif name == "simulate":
            models = simulated_models(qualifier)
            if models is None:
                raise ToolEnded(1, f"Error: simulation must be in range of 0-{len(MODELS)}\r\n{_usage(program)}")
            options.simulate = True
            options.models += models
        elif name == "fix-hip-guid":
            if not _has_value(words):
                raise ToolEnded(1, "Error: fix-hip-guid requires a hex argument\n")
            options.hip_guid_model = _leading_hexadecimal(words.pop(0))
            options.simulated_hip = options.simulated_hip if qualifier is None else _leading_number(qualifier)
        else:
            raise ToolEnded(1, f"option {word} is not valid\n{_usage(program)}")
    return options


def device_names(text: str) -> set[str]:
    """Return the devices in a list such as the value of CUDA_VISIBLE_DEVICES."""
    return {name.strip() for name in text.split(",")} - {""}


def _find_option(word: str) -> tuple[Option | None, str | None]:
    """Return the option that an argument names, and the text after its colon."""
    is_exact = word.startswith("--")
    name, colon, qualifier = word[1 + is_exact :].partition(":")
    for option in TOOL.options if word.startswith("-") else ():
        least = len(option.name) if is_exact else option.least
        if (option.colon or not colon) and len(name) >= least and option.name.startswith(name):
            return option, qualifier if colon else None
    return None, None


def _has_value(words: Sequence[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _leading_number(text: str) -> int:
    """Return the integer at the start of a text, 0 if there is none, as C's atoi does."""
    number = re.match(r"\s*[+-]?\d+", text)
    return int(number[0]) if number else 0


def _leading_hexadecimal(text: str) -> int:
    number = re.match(r"\s*[+-]?(?:0[xX])?[0-9a-fA-F]+", text)
    return int(number[0], 16) if number else 0


def _usage(program: str) -> str:
    return usage_of("gpu_discovery").replace("condor_gpu_discovery", program, 1)
