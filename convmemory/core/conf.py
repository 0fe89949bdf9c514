"""Typed readers for settings from environment variables, and the signing key made at the first start.

A value that cannot be read raises `SettingError`, which names the variable, the value and what is expected. Secrets can
also be read from a file, named by `NAME_FILE`. `IN_FORCE` records every value that was read, for `manage.py doctor` to
show.
"""

import importlib.util
import ipaddress
import os
import re
import secrets
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from convmemory.core.errors import SettingError
from convmemory.core.files.private_files import written_whole
from convmemory.core.text import masked

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})
MASK = "(set, not shown)"
HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

KEY_LOST = (
    "put it back from a copy, or set SECRET_KEY. Without the key people have to sign in again, and stored keys of "
    "agents, kept uploads and authenticator apps can no longer be read. To give these up, write the output of "
    "`openssl rand -hex 48` into this file."
)
IN_FORCE: dict[str, str] = {}
"""The variables that this process has read, with the values in force; secrets are masked."""

P = ParamSpec("P")
T = TypeVar("T")


def _recorded(reader: Callable[Concatenate[str, P], T]) -> Callable[Concatenate[str, P], T]:
    @wraps(reader)
    def read(name: str, /, *args: P.args, **kwargs: P.kwargs) -> T:
        value = reader(name, *args, **kwargs)
        shown = ", ".join(value) if isinstance(value, list) else str(value)
        IN_FORCE[name] = MASK if shown and reader.__name__ == "env_secret" else masked(shown)
        return value

    return read


@_recorded
def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


@_recorded
def env_int(name: str, default: int, *, minimum: int, maximum: int) -> int:
    text = env_str(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not a whole number.") from None
    if value < minimum:
        raise SettingError(f"{name}={value} is too small: use {minimum} or more.")
    if value > maximum:
        raise SettingError(f"{name}={value} is too large: use {maximum} or less.")
    return value


@_recorded
def env_float(name: str, default: float, *, minimum: float, maximum: float) -> float:
    """Read a number from `minimum` to `maximum`, both included."""
    value = _number(name, default)
    if not minimum <= value <= maximum:
        raise SettingError(f"{name}={value:g} is out of range: use a number from {minimum:g} to {maximum:g}.")
    return value


def _number(name: str, default: float) -> float:
    text = env_str(name)
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not a number.") from None


@_recorded
def env_share(name: str, default: float) -> float:
    """Read a number above 0 and at most 1."""
    value = _number(name, default)
    if not 0 < value <= 1:
        raise SettingError(f"{name}={value:g} is not a share: use a number above 0 and at most 1.")
    return value


@_recorded
def env_seconds(name: str, default: float) -> float:
    """Read a time in seconds, above 0 and at most an hour."""
    value = _number(name, default)
    if not 0 < value <= 3600:
        raise SettingError(f"{name}={value:g} is not a time: use seconds above 0 and at most 3600.")
    return value


@_recorded
def env_bool(name: str, *, default: bool) -> bool:
    text = os.environ.get(name)
    if text is None:
        return default
    if text.strip().lower() in TRUE:
        return True
    if text.strip().lower() in FALSE:
        return False
    raise SettingError(f"{name}={text!r} is neither true nor false: use 1 or 0.")


@_recorded
def env_choice(name: str, default: str, choices: Collection[str], *, ignore_case: bool = False) -> str:
    """Read one of the choices; with `ignore_case`, the choices are upper case."""
    value = env_str(name) or default
    if ignore_case:
        value = value.upper()
    if value not in choices:
        raise SettingError(f"{name}={value!r} is unknown: use {' or '.join(choices)}.")
    return value


@_recorded
def env_time_zone(name: str, default: str) -> str:
    """Read the name of a time zone in the IANA database."""
    value = (env_str(name) or default).removeprefix(":")
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise SettingError(f"{name}={value!r} is no time zone: use a name such as UTC or Europe/Berlin.") from None
    return value


@_recorded
def env_address(name: str, default: str = "") -> str:
    """Read the address of a service. It may contain a user name and a password, which are never shown."""
    return checked_address(name, env_str(name, default))


def checked_address(name: str, address: str) -> str:
    """Return `address`, or "". Raises: SettingError, without the value, if it is not an address."""
    try:
        is_address = not address or bool(urlsplit(address).scheme and urlsplit(address).port != 0)
    except ValueError:  # its message quotes the supposed port, which can be half a password
        is_address = False
    if not is_address:
        raise SettingError(
            f"{name} is not an address such as http://host:8000/v1: percent-encode what is special in its password."
        )
    return address


@_recorded
def env_list(name: str, default: tuple[str, ...] = ()) -> list[str]:
    text = env_str(name)
    return [item.strip() for item in text.split(",") if item.strip()] if text else list(default)


@_recorded
def env_proxies(name: str) -> list[str]:
    """Read addresses and networks of proxies, or `*` alone for every address; empty by default."""
    proxies = [item.strip() for item in env_str(name).split(",") if item.strip()]
    for proxy in proxies if proxies != ["*"] else ():
        try:
            ipaddress.ip_network(proxy)
        except ValueError:
            raise SettingError(
                f"{name}={proxy!r} is no address of a proxy: use addresses such as 127.0.0.1 and networks such as "
                "10.0.0.0/8, separated by commas, or * alone."
            ) from None
    return proxies


@_recorded
def env_header(name: str) -> str:
    """Read the name of a header of requests."""
    header = env_str(name)
    if header and not HEADER.fullmatch(header):
        raise SettingError(f"{name}={header!r} is no name of a header: use letters, digits and hyphens.")
    return header


@_recorded
def env_path(name: str, default: Path) -> Path:
    text = env_str(name)
    return Path(text).expanduser().resolve() if text else default


def is_installed(module: str) -> bool:
    """Return whether an optional module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even its package
        return False


@_recorded
def env_secret(name: str, default: str = "") -> str:
    """Read the value of `NAME`, or the content of the file that `NAME_FILE` names."""
    file_name = env_str(f"{name}_FILE")
    if not file_name:
        return env_str(name, default)
    try:
        return Path(file_name).expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{name}_FILE={file_name!r} cannot be read: {error.strerror}.") from error


def secret_key(path: Path) -> str:
    """Return the key stored at `path`; the first process to need it creates it, readable by its user alone.

    Raises: SettingError if the file is empty, or is missing beside a database that was used with it.
    """
    if not path.exists():
        if (path.parent / "postgres" / "PG_VERSION").exists():
            raise SettingError(f"{path} is missing, but the database next to it was made with it: {KEY_LOST}")
        with suppress(FileExistsError), written_whole(path, replaces=False) as file:  # another process was faster
            file.write(secrets.token_urlsafe(50).encode("ascii"))
    key = path.read_text(encoding="ascii").strip()
    if not key:
        raise SettingError(f"{path} is empty: {KEY_LOST}")
    return key
