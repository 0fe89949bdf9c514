"""Masks the secrets that network addresses in a text can contain.

Every address that is shown or logged passes through `masked`: error messages, log lines, doctor, pages. It takes any
text, in linear time, so that whole messages of other libraries can go through it.
"""

import re

MASK = "***"
SECRET_WORDS = ("key", "token", "secret", "pass", "pwd", "auth", "credential", "sig")

_AUTHORITY = re.compile(r"[^\s/?#\"'<>]*")
_RUN = re.compile(r"\S*")
_PARAMETER = re.compile(r"([?&;]([^=?&;#\s\"'<>]{1,100})=)[^&;#\s\"'<>]+")


def masked(text: str) -> str:
    """Return `text` without user names and passwords in addresses, and with `***` for values of secret parameters.

    A parameter is secret if its name contains one of `SECRET_WORDS`. A password with unquoted slashes, which makes the
    address invalid, is found as well.
    """
    before, *addresses = text.split("://")
    joined = "://".join([before, *map(_without_user, addresses)])
    return _PARAMETER.sub(_without_value, joined)


def _without_user(rest: str) -> str:
    """Mask `rest`, the text from one `://` up to the next."""
    authority = _AUTHORITY.match(rest)
    assert authority is not None
    run = authority[0]
    if "@" not in run and not _is_host_with_port(run):
        whole = _RUN.match(rest)
        run = whole[0] if whole else run
    return rest[run.rfind("@") + 1 :]


def _is_host_with_port(authority: str) -> bool:
    """Return whether it is a host name or address, IPv6 in brackets included, with a numeric port or none."""
    port = authority.rpartition("]")[2].partition(":")[2]
    return not port or port.isdecimal()


def _without_value(match: re.Match[str]) -> str:
    is_secret = any(word in match[2].lower() for word in SECRET_WORDS)
    return match[1] + MASK if is_secret else match[0]
