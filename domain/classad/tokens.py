"""Cut a text into tokens, and read its numbers and strings."""

from __future__ import annotations

import re

from .tree import PRECEDENCE, Literal
from .values import ERROR, INT_MAX, INT_MIN, UNDEFINED, from_bytes, strtod, to_bytes

# HTCondor has no such limit. It is some ten times the largest policy anybody would write, and keeps parsing below a
# second.
MAX_TOKENS = 250_000
TOO_MUCH = "\0too much"  # marks where the text is cut off; no rule of the grammar takes it

_SPACE = " \t\n\r\f\v"
_SKIP = rf"(?:[{_SPACE}]+|//[^\n]*|/\*.*?\*/)*+"
_REST = (
    r"[A-Za-z_][A-Za-z0-9_]*"
    r"|(?:0[xX][0-9a-fA-F]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]*)?|\.{1,2}[0-9]+(?:[eE][+-]?[0-9]*)?)"
    # A minus sticks to the number right behind it; where an operator is due the parser splits it off again.
    r"|-(?:0[xX][0-9a-fA-F]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]*)?|\.[0-9]+(?:[eE][+-]?[0-9]*)?)"
    r"|&&|\|\||==|!=|=\?=|=!=|<=|<<|<|>>>|>>|>="
    rf"|\?[{_SPACE}]*:"
    r"|/\*.*|\.\.|[][(){}+\-*/%~^?:;,&|=!>.]"
    r"|\Z|."
)


def _tokens(*strings: str) -> re.Pattern[str]:
    return re.compile(f"{_SKIP}({'|'.join(strings)}|{_REST})", re.DOTALL)


# An unterminated string or comment takes the rest, so that no text is scanned twice; the parser refuses it. A backslash
# escapes any character, and adjacent strings are one ...
NEW = _tokens(
    rf'"(?:[^"\\]|\\.)*+(?:"(?:[{_SPACE}]*"(?:[^"\\]|\\.)*+")*+|\\?\Z)',
    rf"'(?:[^'\\]|\\.)*+(?:'(?:[{_SPACE}]*'(?:[^'\\]|\\.)*+')*+|\\?\Z)",
)
# ... but in old-form ads it is an ordinary character, save before a quote that does not end the line.
OLD = _tokens(
    r'"(?:[^"\\]|\\"(?=[^\n])|\\(?!")|\\(?="(?:\n|\Z)))*+(?:"|\Z)',
    r"'(?:[^'\\]|\\'(?=[^\n])|\\(?!')|\\(?='(?:\n|\Z)))*+(?:'|\Z)",
)

# Every spelling of a binary operator: its name in the tree and how tightly it binds.
BINARY_SPELLINGS: dict[str, tuple[str, int]] = {op: (op, level) for op, level in PRECEDENCE.items()}
BINARY_SPELLINGS |= {"=?=": BINARY_SPELLINGS["is"], "=!=": BINARY_SPELLINGS["isnt"]}
_CASES = {"is": 2, "isnt": 4}
for _word, _length in _CASES.items():
    for _bits in range(1 << _length):
        _spelling = "".join(c.upper() if _bits >> i & 1 else c for i, c in enumerate(_word))
        BINARY_SPELLINGS[_spelling] = BINARY_SPELLINGS[_word]

KEYWORDS = {
    "true": Literal(True),
    "false": Literal(False),
    "undefined": Literal(UNDEFINED),
    "error": Literal(ERROR),
}

# Nodes are immutable: all expressions share one node per small number.
SMALL = {str(number): Literal(number) for number in range(1025)}
_PLAIN_INTEGER = re.compile(r"[1-9][0-9]{0,17}|0")
_HEXADECIMAL = re.compile(r"0[xX][0-9a-fA-F]+")
_HEXADECIMAL_REAL = re.compile(r"0[xX][0-9a-fA-F]+\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_REAL = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class UnreadableToken(ValueError):
    """HTCondor's ClassAds have no such number, or no such string."""


def short(text: str) -> str:
    """Return a text, cut down for a message."""
    return text if len(text) <= 40 else text[:37] + "..."


# -- numbers -----------------------------------------------------------------------------------------------------------


def number_of(token: str) -> Literal:
    """Return the literal of a number; raise `UnreadableToken` if HTCondor has no such one."""
    if token in SMALL:
        return SMALL[token]
    if _PLAIN_INTEGER.fullmatch(token):
        return Literal(int(token))
    negative = token[0] == "-"
    digits = token[1:] if negative else token
    if digits[:2] in ("0x", "0X"):
        # Old ClassAds refuse it; but with a point it is a real, and after a minus HTCondor reads only the zero.
        if _HEXADECIMAL_REAL.fullmatch(digits):
            number = strtod(token)
            return Literal(0.0 if number is None else number)
        if negative and _HEXADECIMAL.fullmatch(digits):
            return Literal(0)
        raise UnreadableToken("hexadecimal numbers are not part of HTCondor's ClassAds")
    if digits.isdigit():
        if digits[0] == "0" and len(digits) > 1 and (not negative or not _is_octal(digits)):
            raise UnreadableToken("a number must not begin with 0")
        number = int(token) if len(token) < 4000 else INT_MAX + 1
        # HTCondor reads an integer that is too large as 0.
        return Literal(number if INT_MIN <= number <= INT_MAX else 0)
    if digits.startswith(".."):
        return Literal(0.0)
    if _REAL.fullmatch(digits) is None:
        raise UnreadableToken(f"{short(token)} is no number")
    return Literal(float(token))


def _is_octal(digits: str) -> bool:
    return "8" not in digits and "9" not in digits


# -- strings -----------------------------------------------------------------------------------------------------------

_SEAM = {q: re.compile(rf"\\.|{q}[{_SPACE}]*{q}", re.DOTALL) for q in "\"'"}


def string_of(token: str, old: bool) -> str:
    """Return a string's characters (``old``: of an old-form ad); raise `UnreadableToken` for none."""
    quote = token[0]
    if not ends(token, old):
        raise UnreadableToken(f"a string that starts with {quote} does not end")
    if old:
        return token[1:-1].replace("\\" + quote, quote) if "\\" in token else token[1:-1]
    inside = token[1:-1]
    if quote in inside:
        inside = _SEAM[quote].sub(lambda found: found[0] if found[0][0] == "\\" else "", inside)
    if "\\" not in inside:
        return inside
    return unescape(inside)


def ends(token: str, old: bool) -> bool:
    """Return whether a string has its closing quote."""
    if len(token) < 2 or token[-1] != token[0]:
        return False
    inside = token[1:-1]
    # A quote behind an odd number of backslashes is a character.
    return old or (len(inside) - len(inside.rstrip("\\"))) % 2 == 0


_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)


def unescape(text: str) -> str:
    """Resolve a string's escapes, octal ones to bytes; raise `UnreadableToken` for a zero byte."""
    if _ESCAPE.search(text) is None:
        return text
    octal = False

    def replaced(match: re.Match[str]) -> str:
        nonlocal octal
        code = match[1]
        if code[0] in "01234567":
            byte = int(code, 8)
            if byte == 0:
                raise UnreadableToken("a string cannot hold a byte of zero")
            octal = octal or byte > 127
            return chr(byte) if byte < 128 else chr(0xDC00 + byte)
        return _ESCAPES.get(code, code)

    result = _ESCAPE.sub(replaced, text)
    # Octal escapes may spell out the bytes of one UTF-8 character.
    return from_bytes(to_bytes(result)) if octal else result
