"""golden: tokens that HTCondor 25.14.1 created with throw-away keys (htcondor_tokens.json) are accepted, and every
altered, expired or revoked token is rejected with its reason."""

import base64
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from poolbook.adapters.security.private_files import (
    PrivateFileError,
    make_private_folder,
    read_private,
    security_folder,
    write_private,
)
from poolbook.adapters.security.tokens import (
    POOL,
    Identity,
    SigningKeyError,
    SigningKeys,
    TokenRejected,
    TokenRules,
    claims_of,
    create,
    verify,
)

RECORDED = json.loads(Path(__file__).with_name("htcondor_tokens.json").read_text())
DOMAIN = RECORDED["trust_domain"]
RULES = TokenRules(DOMAIN)
NOW = 1_800_000_000


@pytest.fixture
def keys(tmp_path: Path) -> SigningKeys:
    folder = tmp_path / "passwords.d"
    make_private_folder(folder)
    for name, content in RECORDED["keys"].items():
        write_private(folder / name, base64.b64decode(content))
    return SigningKeys(folder)


def rejection(token: str, keys: SigningKeys, rules: TokenRules = RULES, now: float = NOW) -> TokenRejected:
    with pytest.raises(TokenRejected) as caught:
        verify(token, keys, rules, now)
    assert len(token) < 20 or token[-20:] not in str(caught.value)
    return caught.value


def signed(keys: SigningKeys, claims: dict[str, Any], header: dict[str, Any] | None = None, key: str = POOL) -> str:
    """Return a token with these claims, and the required ones if `claims` lacks them."""
    required = {"iss": DOMAIN, "sub": f"alice@{DOMAIN}", "jti": "1", "iat": NOW}
    present = {name: value for name, value in (required | claims).items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(present).encode(), keys.derived(key), "HS256", {"kid": key, **(header or {})})


def test_tokens_of_htcondor_are_accepted(keys: SigningKeys) -> None:
    tokens = [each["token"] for each in RECORDED["tokens"]]
    now = claims_of(tokens[1])[1]["iat"]
    ids = [claims_of(token)[1]["jti"] for token in tokens]
    assert [verify(token, keys, RULES, now) for token in tokens] == [
        Identity("alice", DOMAIN, None, "POOL", ids[0], None),
        Identity("alice", DOMAIN, frozenset({"READ", "WRITE"}), "POOL", ids[1], now + 3600),
        Identity("bob", "", None, "OTHER", ids[2], None),
        Identity("condor", DOMAIN, frozenset({"ADVERTISE_STARTD"}), "OTHER", ids[3], None),
    ]


def test_a_token_with_the_claims_of_htcondors_token_is_the_same_text(
    keys: SigningKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    for recorded in RECORDED["tokens"]:
        header, claims = claims_of(recorded["token"])
        monkeypatch.setattr("secrets.token_hex", lambda size, id=claims["jti"]: id)
        levels = [scope.removeprefix("condor:/") for scope in claims.get("scope", "").split()]
        lifetime = claims["exp"] - claims["iat"] if "exp" in claims else None
        token = create(keys, DOMAIN, claims["sub"], claims["iat"], levels=levels, lifetime=lifetime, key=header["kid"])
        assert token == recorded["token"]


def test_a_created_token_names_its_holder(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, f"ep1@{DOMAIN}", NOW, levels=["ADVERTISE_STARTD", "READ"], lifetime=60)
    identity = verify(token, keys, RULES, NOW)
    levels = frozenset({"ADVERTISE_STARTD", "READ"})
    assert identity == Identity("ep1", DOMAIN, levels, "POOL", claims_of(token)[1]["jti"], NOW + 60)
    assert identity.name == f"ep1@{DOMAIN}"
    assert len(identity.id) == 32


def test_a_token_is_valid_until_the_second_of_its_expiry(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, "ep1", NOW, lifetime=60)
    assert verify(token, keys, RULES, NOW + 60.9)
    error = rejection(token, keys, now=NOW + 61)
    assert (error.code, str(error), error.claims["sub"]) == ("expired", "the token expired 1 s ago", "ep1")


def test_a_clock_that_is_behind_does_not_matter(keys: SigningKeys) -> None:
    assert verify(create(keys, DOMAIN, "ep1", NOW), keys, RULES, NOW - 600)


@pytest.mark.parametrize(
    ("claims", "code"),
    [
        ({"iss": "poolb.example"}, "issuer"),
        ({"iss": None}, "claims"),
        ({"iss": [DOMAIN]}, "issuer"),
        ({"sub": None}, "claims"),
        ({"sub": "alice bob@x"}, "claims"),
        ({"sub": "*@x"}, "claims"),
        ({"sub": "@x"}, "claims"),
        ({"sub": "alice@x/10.0.0.1"}, "claims"),
        ({"sub": "a\n"}, "claims"),
        ({"jti": None}, "claims"),
        ({"jti": ""}, "claims"),
        ({"jti": "\ud800"}, "claims"),
        ({"exp": "tomorrow"}, "claims"),
        ({"exp": 1e99}, "claims"),
        ({"exp": True}, "claims"),
        ({"nbf": NOW + 5}, "claims"),
    ],
)
def test_a_signed_token_with_invalid_claims_is_rejected(keys: SigningKeys, claims: dict[str, Any], code: str) -> None:
    assert rejection(signed(keys, claims), keys).code == code


def test_a_token_signed_with_another_key_is_rejected(keys: SigningKeys, tmp_path: Path) -> None:
    other_keys = SigningKeys(tmp_path / "other")
    other_keys.create()
    assert rejection(create(other_keys, DOMAIN, "ep1", NOW), keys).code == "signature"


def test_a_token_whose_key_was_removed_is_rejected(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, "ep1", NOW, key="OTHER")
    (keys.folder / "OTHER").unlink()
    assert rejection(token, keys).code == "key"


@pytest.mark.parametrize("header", [{"kid": "../POOL"}, {"kid": "/etc/passwd"}, {"kid": ""}, {"kid": ".hidden"}])
def test_a_key_id_that_is_a_path_is_rejected(keys: SigningKeys, header: dict[str, Any]) -> None:
    assert rejection(signed(keys, {}, header), keys).code == "malformed"


def test_a_token_without_signature_or_with_another_algorithm_is_rejected(keys: SigningKeys) -> None:
    claims = {"iss": DOMAIN, "sub": "alice", "jti": "1"}
    unsigned = jwt.encode(claims, "", "none", {"kid": POOL})
    longer = jwt.encode(claims, keys.derived(POOL) * 2, "HS512", {"kid": POOL})
    without_key = jwt.encode(claims, keys.derived(POOL), "HS256")
    assert [rejection(token, keys).code for token in (unsigned, longer, without_key)] == ["malformed"] * 3


def test_any_altered_part_of_a_token_is_rejected(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, "ep1", NOW)
    for at in range(0, len(token), 7):
        other = "A" if token[at] != "A" else "B"
        rejection(token[:at] + other + token[at + 1 :], keys)


@pytest.mark.parametrize("text", ["", "x", "a.b", "a.b.c", "....", "é.é.é", "A" * 20_000, "e30.e30.", "[" * 9000])
def test_texts_that_are_no_tokens_are_rejected(keys: SigningKeys, text: str) -> None:
    assert rejection(text, keys).code == "malformed"


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
_CLAIMS = st.dictionaries(st.sampled_from(["iss", "sub", "jti", "iat", "nbf", "exp", "scope", "alg", "kid"]), _JSON)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_CLAIMS | _JSON, _CLAIMS | _JSON, st.binary(max_size=40), st.sampled_from(["HS256", "none", "HS512", "RS256"]))
def test_no_text_without_a_signature_is_accepted(
    keys: SigningKeys, header: object, claims: object, signature: bytes, algorithm: str
) -> None:
    names = {**header, "alg": algorithm, "kid": POOL} if isinstance(header, dict) else header
    parts = (json.dumps(names).encode(), json.dumps(claims).encode(), signature)
    rejection(".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), keys)


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(_CLAIMS)
def test_signed_claims_of_any_kind_are_accepted_or_rejected(keys: SigningKeys, claims: dict[str, object]) -> None:
    rules = TokenRules(DOMAIN, max_age=60, revocation='sub == "x"')
    try:
        identity = verify(signed(keys, {"iss": DOMAIN, "sub": "alice", "jti": "1", **claims}), keys, rules, NOW)
    except TokenRejected:
        return
    assert identity.user and identity.id


def test_an_old_token_is_rejected(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, "ep1", NOW)
    rules = TokenRules(DOMAIN, max_age=60)
    assert verify(token, keys, rules, NOW + 60)
    assert rejection(token, keys, rules, NOW + 61).code == "age"
    assert rejection(signed(keys, {"iat": None}), keys, rules).code == "age"


def test_a_revoked_token_is_rejected(keys: SigningKeys) -> None:
    token, other_token = (create(keys, DOMAIN, "ep1", NOW) for _ in range(2))
    rules = TokenRules(DOMAIN, revoked_ids={claims_of(token)[1]["jti"]})
    assert rejection(token, keys, rules).code == "revoked"
    assert verify(other_token, keys, rules, NOW)


@pytest.mark.parametrize(
    ("expression", "is_revoked"),
    [
        ('sub == "alice@poola.example"', True),
        ('sub == "bob@poola.example"', False),
        (f"iat < {NOW}", False),
        (f"iat < {NOW + 1}", True),
        ("time() - iat > 60", False),
        ("missing > 3", True),
        ("sub", True),
        ("0", False),
        ("(", True),
        ('regexp("^alice", sub)', True),
    ],
)
def test_the_revocation_expression_sees_the_claims(keys: SigningKeys, expression: str, is_revoked: bool) -> None:
    token = create(keys, DOMAIN, "alice@poola.example", NOW)
    rules = TokenRules(DOMAIN, revocation=expression)
    if is_revoked:
        assert rejection(token, keys, rules).code == "revoked"
    else:
        assert verify(token, keys, rules, NOW)


@pytest.mark.parametrize(
    ("scope", "levels"),
    [
        ("condor:/READ condor:/WRITE", {"READ", "WRITE"}),
        ("condor:/READ compute.create", {"READ"}),
        ("compute.create", set()),
        ("", set()),
        (["condor:/ADMINISTRATOR"], set()),
    ],
)
def test_a_scope_limits_a_token(keys: SigningKeys, scope: object, levels: set[str]) -> None:
    assert verify(signed(keys, {"scope": scope}), keys, RULES, NOW).scopes == frozenset(levels)


@pytest.mark.parametrize(
    "arguments",
    [
        {"identity": ""},
        {"identity": "a b"},
        {"identity": "alice/*"},
        {"trust_domain": ""},
        {"trust_domain": "a, b"},
        {"levels": ["READ condor:/WRITE"]},
        {"lifetime": -1},
    ],
)
def test_invalid_requests_for_tokens_are_errors(keys: SigningKeys, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        create(keys, **{"trust_domain": DOMAIN, "identity": "alice", "now": NOW, **arguments})


def test_a_key_is_created_only_once(tmp_path: Path) -> None:
    keys = SigningKeys(security_folder(tmp_path / "m.db") / "passwords.d")
    keys.create()
    first = keys.derived(POOL)
    keys.create()
    assert keys.derived(POOL) == first
    assert [(path.name, oct(path.stat().st_mode & 0o777)) for path in keys.folder.iterdir()] == [("POOL", "0o600")]
    for folder in (keys.folder, keys.folder.parent):
        assert oct(folder.stat().st_mode & 0o777) == "0o700"


def test_a_missing_key_is_an_error_with_htcondors_message(keys: SigningKeys) -> None:
    with pytest.raises(SigningKeyError, match="NOSUCH cannot be read: No such file") as caught:
        create(keys, DOMAIN, "bob", NOW, key="NOSUCH")
    assert caught.value.tool == f"TOKEN:1:Failed to read file {keys.folder}/NOSUCH securely."
    with pytest.raises(SigningKeyError, match="is not a key id"):
        create(keys, DOMAIN, "bob", NOW, key="../x")


def test_a_key_that_others_may_read_is_refused(keys: SigningKeys) -> None:
    token = create(keys, DOMAIN, "ep1", NOW)
    os.chmod(keys.folder / POOL, 0o640)
    assert rejection(token, keys).code == "key"
    with pytest.raises(PrivateFileError, match="run `chmod 600 "):
        read_private(keys.folder / POOL)
    os.chmod(keys.folder, 0o711)
    with pytest.raises(PrivateFileError, match="run `chmod 700 "):
        make_private_folder(keys.folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to change a file's owner")
def test_a_key_of_another_user_is_refused(keys: SigningKeys) -> None:
    os.chown(keys.folder / POOL, 12345, -1)
    with pytest.raises(SigningKeyError, match="belongs to user 12345"):
        create(keys, DOMAIN, "ep1", NOW)


def test_only_complete_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    write_private(tmp_path / "long", b"x" * ((1 << 20) + 1))
    for name, problem in (("pipe", "not a regular file"), ("long", "longer than 1 MB"), ("none", "No such file")):
        with pytest.raises(PrivateFileError, match=problem):
            read_private(tmp_path / name)


def test_threads_may_write_the_same_private_file_at_once(tmp_path: Path) -> None:
    path, texts = tmp_path / "secret", [bytes([number]) * 1000 for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: write_private(path, text), texts * 4))
    assert read_private(path) in texts
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_an_existing_private_file_is_replaced_only_on_request(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    write_private(path, b"1")
    with pytest.raises(FileExistsError):
        write_private(path, b"2", replace=False)
    assert read_private(path) == b"1"
    write_private(path, b"2")
    assert read_private(path) == b"2"
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]
