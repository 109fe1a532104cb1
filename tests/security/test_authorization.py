"""golden: the collector of HTCondor 25.14.1 allowed and denied the same requests for the same reasons
(htcondor_authorization.json: condor_ping for each level, from 127.0.0.1, with tokens of three identities)."""

import json
from pathlib import Path

import pytest

from poolbook.adapters.security.authorization import LEVELS, is_authorized

RECORDED = json.loads(Path(__file__).with_name("htcondor_authorization.json").read_text())
CONDOR, ALICE = "condor@poola.example", "alice@poola.example"
LOCAL = "127.0.0.1"
ASKED = [level for level in LEVELS if level not in ("ALLOW", "CLIENT")]


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda each: f"{each['identity']} {each['settings']}")
def test_the_collector_decides_the_same(recorded: dict[str, dict[str, str]]) -> None:
    verdicts = {
        level: is_authorized(recorded["settings"], str(recorded["identity"]), LOCAL, level, daemon="COLLECTOR")
        for level in ASKED
    }
    assert sorted(level for level in ASKED if verdicts[level].allowed) == sorted(recorded["allowed"])
    reasons = {level: verdicts[level].reason.partition(" for alice@")[0] for level in recorded["reasons"]}
    ending = " for this request"
    for level, reason in recorded["reasons"].items():
        assert reasons[level].startswith(reason.removesuffix(ending))


@pytest.mark.parametrize(
    ("scopes", "allowed"),
    [
        (None, {"READ", "WRITE", "ADMINISTRATOR", "DAEMON", "NEGOTIATOR", "ADVERTISE_STARTD", "ADVERTISE_SCHEDD",
                "ADVERTISE_MASTER"}),
        ({"READ"}, {"READ"}),
        ({"DAEMON"}, {"READ", "WRITE", "DAEMON"}),
        ({"ADVERTISE_STARTD"}, {"READ", "ADVERTISE_STARTD"}),
        ({"ADMINISTRATOR"}, {"READ", "WRITE", "ADMINISTRATOR"}),
        ({"CONFIG"}, {"READ"}),
        ({"nonsense"}, set()),
        (set(), set()),
    ],
)  # fmt: skip
def test_scopes_limit_a_token_as_in_htcondor(scopes: set[str] | None, allowed: set[str]) -> None:
    """The expected levels are what the recorded pool allowed to tokens with these scopes."""
    assert {level for level in ASKED if is_authorized({}, CONDOR, LOCAL, level, scopes).allowed} == allowed


def test_the_verdict_names_the_rule() -> None:
    settings = {"DENY_WRITE": "10.1.*, *@lab.example/*", "ALLOW_CONFIG": "root@poola.example/10.0.0.0/8"}
    rules = [
        is_authorized(settings, identity, address, level, scopes).rule
        for identity, address, level, scopes in (
            (ALICE, "10.1.2.3", "WRITE", None),
            ("bob@lab.example", "10.2.2.3", "WRITE", None),
            (ALICE, "10.2.2.3", "WRITE", None),
            ("root@poola.example", "10.2.2.3", "CONFIG", None),
            ("root@poola.example", "11.2.2.3", "CONFIG", None),
            (CONDOR, LOCAL, "DAEMON", None),
            (CONDOR, LOCAL, "ADVERTISE_STARTD", None),
            (CONDOR, LOCAL, "DAEMON", {"READ"}),
            (None, LOCAL, "WRITE", None),
        )
    ]
    assert rules == [
        "DENY_WRITE: 10.1.*",
        "DENY_WRITE: *@lab.example/*",
        "ALLOW_WRITE: *",
        "ALLOW_CONFIG: root@poola.example/10.0.0.0/8",
        "ALLOW_CONFIG: no entry matches",
        "ALLOW_DAEMON: condor@*",
        "ALLOW_DAEMON: condor@*",
        "scope: READ",
        "SEC_DEFAULT_AUTHENTICATION: REQUIRED",
    ]


def test_only_reading_needs_no_authentication() -> None:
    assert [level for level in LEVELS if is_authorized({}, None, LOCAL, level).allowed] == ["ALLOW", "READ", "CLIENT"]
    settings = {"SEC_DEFAULT_AUTHENTICATION": "optional", "ALLOW_WRITE": "*/127.0.0.1"}
    assert is_authorized(settings, None, LOCAL, "WRITE").allowed
    assert not is_authorized({"SEC_READ_AUTHENTICATION": "required"}, None, LOCAL, "READ").allowed


@pytest.mark.parametrize(
    ("host", "address", "matches"),
    [
        ("10.77.0.0/24", "10.77.0.22", True),
        ("10.77.0.0/24", "10.77.1.22", False),
        ("10.77.0.0/255.255.0.0", "10.77.1.22", True),
        ("10.77.", "10.77.1.22", True),
        ("10.7", "10.77.1.22", False),
        ("*", "fd00::1", True),
        ("fd00::/8", "fd12::1", True),
        ("fd00:1:*", "fd00:1:2::3", True),
        ("fd00:1:*", "fd00:2:2::3", False),
        ("10.77.0.0/24", "::ffff:10.77.0.22", True),
        ("fd00::/8", "10.0.0.1", False),
        ("fe80::1", "fe80::1%eth0", True),
        ("999.1.1.1", "10.0.0.1", False),
        ("10.0.0.0/99", "10.0.0.1", False),
        ("localhost", "127.0.0.1", True),
        ("LOCAL*", "127.0.0.1", True),
        ("{:local_ips:}", "127.0.0.1", True),
        ("{:local_ips:}", "192.0.2.1", False),
    ],
)
def test_hosts_are_names_addresses_or_networks(host: str, address: str, matches: bool) -> None:
    for entry in (f"{ALICE}/{host}", f"*/{host}"):
        assert is_authorized({"ALLOW_CONFIG": entry}, ALICE, address, "CONFIG").allowed == matches
        denied = not is_authorized({"ALLOW_CONFIG": "*", "DENY_CONFIG": entry}, ALICE, address, "CONFIG").allowed
        assert denied == matches
    assert not is_authorized({"ALLOW_CONFIG": f"bob@*/{host}"}, ALICE, address, "CONFIG").allowed


def test_a_name_with_wildcards_is_no_pattern() -> None:
    assert not is_authorized({"ALLOW_CONFIG": "alice@poola.example"}, "a*@*", LOCAL, "CONFIG").allowed
    assert not is_authorized({"ALLOW_CONFIG": "a.ice@x"}, "alice@x", LOCAL, "CONFIG").allowed


def test_a_netgroup_denies_everyone_and_allows_no_one() -> None:
    assert not is_authorized({"ALLOW_CONFIG": "+admins"}, ALICE, LOCAL, "CONFIG").allowed
    verdict = is_authorized({"ALLOW_CONFIG": "*", "DENY_CONFIG": "+students"}, ALICE, LOCAL, "CONFIG")
    assert (verdict.allowed, verdict.rule) == (False, "DENY_CONFIG: +students")
    assert "netgroups (+students) are not supported" in verdict.reason


@pytest.mark.parametrize(("level", "address"), [("SUPER", LOCAL), ("READ", "localhost"), ("READ", ""), ("read", LOCAL)])
def test_unknown_levels_and_addresses_are_errors(level: str, address: str) -> None:
    with pytest.raises(ValueError):
        is_authorized({}, ALICE, address, level)
