"""Split text into tokens, and parse numbers and strings."""

from __future__ import annotations

import re

from .tree import PRECEDENCE, Literal
from .values import ERROR, INT_MAX, INT_MIN, UNDEFINED, from_bytes, strtod, to_bytes

# HTCondor has no such limit. This value is ten times the largest realistic policy, and keeps parsing below a second.
MAX_TOKENS = 250_000
TOO_LONG = "\0too much"  # replaces the tokens beyond the limit; no rule of the grammar accepts it

_SPACE = " \t\n\r\f\v"
_SKIPPED = rf"(?:[{_SPACE}]+|//[^\n]*|/\*.*?\*/)*+"
_OTHER_TOKENS = (
    r"[A-Za-z_][A-Za-z0-9_]*"
    r"|(?:0[xX][0-9a-fA-F]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]*)?|\.{1,2}[0-9]+(?:[eE][+-]?[0-9]*)?)"
    # A minus directly before a number is part of its token; if an operator is expected, the parser splits the token.
    r"|-(?:0[xX][0-9a-fA-F]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]*)?|[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]*)?|\.[0-9]+(?:[eE][+-]?[0-9]*)?)"
    r"|&&|\|\||==|!=|=\?=|=!=|<=|<<|<|>>>|>>|>="
    rf"|\?[{_SPACE}]*:"
    r"|/\*.*|\.\.|[][(){}+\-*/%~^?:;,&|=!>.]"
    r"|\Z|."
)


def _token_pattern(*strings: str) -> re.Pattern[str]:
    return re.compile(f"{_SKIPPED}({'|'.join(strings)}|{_OTHER_TOKENS})", re.DOTALL)


# An unterminated string or comment extends to the end of the text, so that no text is scanned twice; the parser rejects
# it. A backslash escapes any character, and adjacent strings are concatenated ...
NEW_FORM = _token_pattern(
    rf'"(?:[^"\\]|\\.)*+(?:"(?:[{_SPACE}]*"(?:[^"\\]|\\.)*+")*+|\\?\Z)',
    rf"'(?:[^'\\]|\\.)*+(?:'(?:[{_SPACE}]*'(?:[^'\\]|\\.)*+')*+|\\?\Z)",
)
# ... but in old-form ads a backslash is an ordinary character, except before a quote that does not end the line.
OLD_FORM = _token_pattern(
    r'"(?:[^"\\]|\\"(?=[^\n])|\\(?!")|\\(?="(?:\n|\Z)))*+(?:"|\Z)',
    r"'(?:[^'\\]|\\'(?=[^\n])|\\(?!')|\\(?='(?:\n|\Z)))*+(?:'|\Z)",
)

# Every spelling of a binary operator: its name in the tree and its precedence.
BINARY_SPELLINGS: dict[str, tuple[str, int]] = {op: (op, level) for op, level in PRECEDENCE.items()}
BINARY_SPELLINGS |= {"=?=": BINARY_SPELLINGS["is"], "=!=": BINARY_SPELLINGS["isnt"]}
_WORD_OPERATORS = {"is": 2, "isnt": 4}
for _word, _length in _WORD_OPERATORS.items():
    for _uppercase_bits in range(1 << _length):
        _spelling = "".join(c.upper() if _uppercase_bits >> i & 1 else c for i, c in enumerate(_word))
        BINARY_SPELLINGS[_spelling] = BINARY_SPELLINGS[_word]

KEYWORDS = {"true": Literal(True), "false": Literal(False), "undefined": Literal(UNDEFINED), "error": Literal(ERROR)}

# Nodes are immutable, so all expressions share one node for each small number.
SMALL_INTEGERS = {str(number): Literal(number) for number in range(1025)}
_PLAIN_INTEGER = re.compile(r"[1-9][0-9]{0,17}|0")
_HEXADECIMAL = r"0[xX][0-9a-fA-F]+"
_HEXADECIMAL_REAL = r"0[xX][0-9a-fA-F]+\.[0-9]+(?:[eE][+-]?[0-9]+)?"
_REAL = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


class UnreadableToken(ValueError):
    """Raised for a number or string that HTCondor's ClassAds do not allow."""


def shorten(text: str) -> str:
    """Shorten a text for a message."""
    return text if len(text) <= 40 else text[:37] + "..."


def parse_number(token: str) -> Literal:
    """Return the literal of a number; raise UnreadableToken if HTCondor does not allow it."""
    if token in SMALL_INTEGERS:
        return SMALL_INTEGERS[token]
    if _PLAIN_INTEGER.fullmatch(token):
        return Literal(int(token))
    negative = token[0] == "-"
    digits = token[1:] if negative else token
    if digits[:2] in ("0x", "0X"):
        # Old ClassAds reject hexadecimal integers. With a point, it is a real; after a minus, HTCondor reads only 0.
        if re.fullmatch(_HEXADECIMAL_REAL, digits):
            number = strtod(token)
            return Literal(0.0 if number is None else number)
        if negative and re.fullmatch(_HEXADECIMAL, digits):
            return Literal(0)
        raise UnreadableToken("ClassAds in HTCondor have no hexadecimal numbers")
    if digits.isdigit():
        if digits[0] == "0" and len(digits) > 1 and (not negative or "8" in digits or "9" in digits):
            raise UnreadableToken("a number must not begin with 0")
        number = int(token) if len(token) < 4000 else INT_MAX + 1
        # As in HTCondor, an integer that is too large becomes 0.
        return Literal(number if INT_MIN <= number <= INT_MAX else 0)
    if digits.startswith(".."):
        return Literal(0.0)
    if _REAL.fullmatch(digits) is None:
        raise UnreadableToken(f"{shorten(token)} is not a number")
    return Literal(float(token))


_ESCAPE_OR_JOINT = {q: re.compile(rf"\\.|{q}[{_SPACE}]*{q}", re.DOTALL) for q in "\"'"}


def parse_string(token: str, old: bool) -> str:
    """Return the text of a string token; raise UnreadableToken if it is invalid.

    :param old: whether the token is in an old-form ad, in which a backslash is an ordinary character
    """
    quote = token[0]
    if not is_closed(token, old):
        raise UnreadableToken(f"the string that starts with {quote} is not closed")
    if old:
        return token[1:-1].replace("\\" + quote, quote) if "\\" in token else token[1:-1]
    content = token[1:-1]
    if quote in content:
        content = _ESCAPE_OR_JOINT[quote].sub(lambda match: match[0] if match[0][0] == "\\" else "", content)
    if "\\" not in content:
        return content
    return resolve_escapes(content)


def is_closed(token: str, old: bool) -> bool:
    """Check whether a string has its closing quote."""
    if len(token) < 2 or token[-1] != token[0]:
        return False
    content = token[1:-1]
    # A quote after an odd number of backslashes is an ordinary character.
    return old or (len(content) - len(content.rstrip("\\"))) % 2 == 0


_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip
_ESCAPE = r"(?s)\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)"


def resolve_escapes(text: str) -> str:
    """Resolve the escapes in a string; octal escapes become bytes. Raise UnreadableToken for a zero byte."""
    if re.search(_ESCAPE, text) is None:
        return text
    has_high_bytes = False

    def replace_escape(match: re.Match[str]) -> str:
        nonlocal has_high_bytes
        code = match[1]
        if code[0] in "01234567":
            byte = int(code, 8)
            if byte == 0:
                raise UnreadableToken("a string cannot contain a zero byte")
            has_high_bytes = has_high_bytes or byte > 127
            return chr(byte) if byte < 128 else chr(0xDC00 + byte)
        return _ESCAPES.get(code, code)

    result = re.sub(_ESCAPE, replace_escape, text)
    # Several octal escapes may together form one UTF-8 character.
    return from_bytes(to_bytes(result)) if has_high_bytes else result
