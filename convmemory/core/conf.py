"""Typed readers for settings from environment variables.

A value that cannot be read raises `SettingError` naming the variable, the value and what is
expected. Secrets are also read from the file that `NAME_FILE` points to.
"""

import os
from pathlib import Path

from convmemory.core.errors import SettingError

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})


def env_str(name: str, default: str = "") -> str:
    return os.environ.get(name, default).strip()


def env_int(name: str, default: int, *, minimum: int | None = None) -> int:
    text = env_str(name)
    if not text:
        return default
    try:
        value = int(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not a whole number.") from None
    if minimum is not None and value < minimum:
        raise SettingError(f"{name}={value} is too small: use {minimum} or more.")
    return value


def env_float(name: str, default: float) -> float:
    text = env_str(name)
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise SettingError(f"{name}={text!r} is not a number.") from None


def env_share(name: str, default: float) -> float:
    """A number above 0 and at most 1."""
    value = env_float(name, default)
    if not 0 < value <= 1:
        raise SettingError(f"{name}={value:g} is not a share: use a number above 0 and at most 1.")
    return value


def env_bool(name: str, *, default: bool) -> bool:
    text = os.environ.get(name)
    if text is None:
        return default
    if text.strip().lower() in TRUE:
        return True
    if text.strip().lower() in FALSE:
        return False
    raise SettingError(f"{name}={text!r} is neither true nor false: use 1 or 0.")


def env_list(name: str, default: tuple[str, ...] = ()) -> list[str]:
    text = env_str(name)
    return [item.strip() for item in text.split(",") if item.strip()] if text else list(default)


def env_path(name: str, default: Path) -> Path:
    text = env_str(name)
    return Path(text).expanduser().resolve() if text else default


def env_secret(name: str, default: str = "") -> str:
    """The value of `NAME`, or the content of the file that `NAME_FILE` names."""
    file_name = env_str(f"{name}_FILE")
    if not file_name:
        return env_str(name, default)
    try:
        return Path(file_name).expanduser().read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SettingError(f"{name}_FILE={file_name!r} cannot be read: {error.strerror}.") from error
