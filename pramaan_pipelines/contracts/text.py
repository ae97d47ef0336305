"""Text of a stranger, made safe to store, log and show.

Promises: what comes out is one line that Postgres, a queue and a terminal take, of bounded length,
without passwords in URLs and without anything that looks like an AWS credential or signature.
Never: raises for any text, or spends time that grows with more than a fixed part of it.
"""

import re
import unicodedata
from typing import Final

MARK: Final = "<removed>"

_READ: Final = 20_000
"""Characters looked at. A service's error page can be megabytes; its first lines say enough."""

_USERINFO = re.compile(r"(?<=://)[^\s\"'<>]{0,300}@")
"""Too much rather than too little: a password may hold a slash or an at sign."""
_NAMED_SECRET = re.compile(
    r"""(?ix)
    \b( x-amz-(?:signature|security-token|credential) | signature | credential
      | aws_secret_access_key | aws_session_token | secretaccesskey | sessiontoken
      | password | passwd | secret | token )
    (["']? \s* [=:] \s* ["']?) [^\s"'&,;<>]+
    """
)
_ACCESS_KEY_ID = re.compile(r"\b(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{12,}\b")
_JSON_WEB_TOKEN = re.compile(r"\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?")
_SECRET_SHAPED = re.compile(r"(?<![A-Za-z0-9/+])[A-Za-z0-9/+]{40}=*(?![A-Za-z0-9/+=])")
_TOKEN_SHAPED = re.compile(r"(?<![A-Za-z0-9/+_])[A-Za-z0-9/+_]{64,}=*")
"""Signatures are 64 hex digits, session tokens hundreds of base64 characters. No hyphen: the names
of queues have several."""


def safe_text(value: object, limit: int = 500) -> str:
    """Return `value` as one safe line.

    Args:
        value: anything; its `str` is used.
        limit: the most characters of the result, at least 1; a cut is shown by an ellipsis.
    """
    text = str(value)
    if len(text) > _READ:
        # The last word may be half a secret, which no pattern would know.
        text = "".join(text[:_READ].rsplit(maxsplit=1)[:1])
    text = " ".join("".join(_plain(character) for character in text).split())
    text = _USERINFO.sub("", text)
    text = _NAMED_SECRET.sub(rf"\1\2{MARK}", text)
    for pattern in (_ACCESS_KEY_ID, _JSON_WEB_TOKEN, _TOKEN_SHAPED, _SECRET_SHAPED):
        text = pattern.sub(MARK, text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def counted(number: object, what: str) -> str:
    """Return `number`, or what stands for one, with the noun `what` in the number that it needs."""
    return f"{number} {what}" if str(number) == "1" else f"{number} {what}s"


def _plain(character: str) -> str:
    if character.isspace():
        return " "
    # Cc, Cf (which can turn a line around), Cs (lone surrogates), Co and Cn.
    return "" if unicodedata.category(character).startswith("C") else character
