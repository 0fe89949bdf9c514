"""Text that names addresses, without the secrets that an address can hold.

Every address that is shown or logged passes `masked`: error messages, log lines, doctor, pages. It reads any text, in
linear time, so that whole messages of other libraries can go through it, too.
"""

import re

MASK = "***"
SECRET_WORDS = ("key", "token", "secret", "pass", "pwd", "auth", "credential", "sig")

_AUTHORITY = re.compile(r"[^\s/?#\"'<>]*")
_RUN = re.compile(r"\S*")
_PARAMETER = re.compile(r"([?&;]([^=?&;#\s\"'<>]{1,100})=)[^&;#\s\"'<>]+")


def masked(text: str) -> str:
    """`text` without user names and passwords in addresses, and with `***` for parameters that sound secret.

    A password with unquoted slashes, which is no address any more, is found as well.
    """
    before, *addresses = text.split("://")
    joined = "://".join([before, *map(_without_user, addresses)])
    return _PARAMETER.sub(_without_value, joined)


def _without_user(rest: str) -> str:
    """`rest` is what follows `://`, up to the next one."""
    authority = _AUTHORITY.match(rest)
    assert authority is not None
    run = authority[0]
    if "@" not in run and not _is_host_with_port(run):
        whole = _RUN.match(rest)
        run = whole[0] if whole else run
    return rest[run.rfind("@") + 1 :]


def _is_host_with_port(authority: str) -> bool:
    """Whether it is a host, an IPv6 address in brackets too, with a port of digits or none."""
    port = authority.rpartition("]")[2].partition(":")[2]
    return not port or port.isdecimal()


def _without_value(match: re.Match[str]) -> str:
    is_secret = any(word in match[2].lower() for word in SECRET_WORDS)
    return match[1] + MASK if is_secret else match[0]
