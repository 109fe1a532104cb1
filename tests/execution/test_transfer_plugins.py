"""golden: the file transfer plugins that a machine's configuration names, and how slots and jobs use them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from poolbook.adapters.machine.starter import Starter
from poolbook.adapters.machine.transfer_plugins import plugin_attributes, plugin_problems, plugins_by_method
from poolbook.adapters.runtime.activations import ReadAd, file_transfer, job_plugins
from poolbook.domain.config import Configuration, read

from ..together import together

SAID = {
    "good": 'MultipleFileSupport = true\nSupportedMethods = "Own, http"\n'
    'StartdAttrs = "OwnInfo,Gone"\nOwnInfo = [ a = 1 ]',
    "old": 'SupportedMethods = "own"',
    "mute": "",
    "rubbish": "no ad",
}


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    for name, text in SAID.items():
        (tmp_path / name).write_text(f"#!/bin/sh\ncat <<'E'\n{text}\nE\n")
        (tmp_path / name).chmod(0o700)
    (tmp_path / "slow").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tmp_path / "slow").chmod(0o700)
    return tmp_path


def configured(programs: Path, text: str) -> Configuration:
    return read(text.replace("HERE", str(programs)))


DEFAULT = {"data", "file", "ftp", "http", "https"}
METHODS = {
    "": DEFAULT,
    "FILETRANSFER_PLUGINS = $(FILETRANSFER_PLUGINS), HERE/good": DEFAULT | {"own"},
    "FILETRANSFER_PLUGINS = /none/curl_plugin": DEFAULT - {"data"},
    "FILETRANSFER_PLUGINS = /none/data_plugin, HERE/good": {"data", "own", "http"},
    "FILETRANSFER_PLUGINS = ": set(),
    "ENABLE_URL_TRANSFERS = false": set(),
}


@together("text, methods", METHODS.items())
def test_a_machine_has_the_schemes_of_its_plugins(programs: Path, text: str, methods: set[str]) -> None:
    assert set(plugins_by_method(configured(programs, text))) == methods


def test_the_later_of_two_plugins_for_a_scheme_is_used(programs: Path) -> None:
    plugins = plugins_by_method(configured(programs, "FILETRANSFER_PLUGINS = /none/curl_plugin, HERE/good"))
    assert plugins["http"] == (str(programs / "good"),) and plugins["https"][0] == sys.executable


def test_slots_report_the_methods_and_ads_of_the_plugins(programs: Path) -> None:
    ad = plugin_attributes(configured(programs, "FILETRANSFER_PLUGINS = HERE/good"))
    assert ad == {
        "HasFileTransferPluginMethods": '"http,own"',
        "HasJobTransferPlugins": "true",
        "OwnInfo": "[ a = 1 ]",
    }
    assert plugin_attributes(configured(programs, "ENABLE_URL_TRANSFERS = false")) == {}


FAULTS = {
    "none": "No such file or directory: it is ignored",
    "old": "it moves one file at a time (protocol 1)",
    "mute": "its -classad names no SupportedMethods",
    "rubbish": "its -classad names no SupportedMethods",
    "slow": "timed out after 4 seconds",
    "good": "",
}


def test_a_plugin_that_cannot_be_used_is_reported_and_ignored(programs: Path) -> None:
    names = ", ".join(f"HERE/{name}" for name in FAULTS)
    configuration = configured(programs, f"FILETRANSFER_PLUGINS = {names}\nFILETRANSFER_PLUGIN_CLASSAD_TIMEOUT = 4")
    messages = {Path(fault.split(": ")[1]).name: fault for fault in plugin_problems(configuration)}
    assert messages.keys() == {name for name, message in FAULTS.items() if message}
    assert all(FAULTS[name] in message for name, message in messages.items())
    assert set(plugins_by_method(configuration)) == {"own", "http"}
    assert plugin_problems(read("")) == []


def test_a_jobs_own_plugins_are_inputs_and_override_the_machines() -> None:
    job = {
        "ShouldTransferFiles": '"YES"',
        "TransferPlugins": '"http,HTTPS=tools/mine.py;own = other"',
        "TransferInput": '"http://a/b,other"',
        "OutputDestination": '"own://host/x"',
    }
    starter = Starter(plugins={"http": ("/a",), "file": ("/b",)}, plugin_seconds=7)
    transfer = file_transfer(ReadAd(job), ReadAd({}), starter)
    assert transfer is not None
    assert transfer.plugins == {"http": ("mine.py",), "https": ("mine.py",), "own": ("other",), "file": ("/b",)}
    assert transfer.inputs == ("tools/mine.py", "http://a/b", "other")
    assert (transfer.destination, transfer.plugin_seconds) == ("own://host/x", 7)
    off = file_transfer(ReadAd(job), ReadAd({}), Starter(urls=False, plugins={}))
    assert off is not None and off.plugins == {} and off.inputs == ("http://a/b", "other")


@together(
    "text, plugins",
    {"": {}, "own": {}, "=x": {}, "a=": {}, " A , b = x y ; c=z": {"a": "x y", "b": "x y", "c": "z"}}.items(),
)
def test_transfer_plugins_are_parsed_as_in_submit_files(text: str, plugins: dict[str, str]) -> None:
    assert job_plugins(text) == plugins
