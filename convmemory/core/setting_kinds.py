"""The kinds of settings with which `config.py` declares each: numbers with a range, choices, secrets and others."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Generic, Self, TypeVar, overload

from django.conf import settings

from convmemory.core import conf
from convmemory.core.identity_providers import IdentityProvider, providers_from

T = TypeVar("T")


class Computed(Generic[T]):
    """A value that `convmemory.settings` computes, or that Django defines: no variable sets it."""

    def __set_name__(self, owner: type[object], name: str) -> None:
        self.name = name.upper()

    @overload
    def __get__(self, instance: None, owner: type[object]) -> Self: ...
    @overload
    def __get__(self, instance: object, owner: type[object]) -> T: ...
    def __get__(self, instance: object | None, owner: type[object]) -> Self | T:
        if instance is None:
            return self
        value: T = getattr(settings, self.name)
        return value


class Setting(Computed[T]):
    """A value that a variable of the environment sets. `shown` is its default in the documentation."""

    def __init__(self, reader: Callable[[str], T], *, shown: str, meaning: str, variable: str = "") -> None:
        self._reader = reader
        self.shown = shown
        self.meaning = meaning
        self.variable = variable

    def __set_name__(self, owner: type[object], name: str) -> None:
        super().__set_name__(owner, name)
        self.variable = self.variable or self.name

    def read(self) -> T:
        """Return the value in the environment. Raises: SettingError."""
        return self._reader(self.variable)


class Number(Setting[T]):
    """A setting with a range."""


def whole(
    default: int, minimum: int, maximum: int, meaning: str, *, shown: str = "", variable: str = ""
) -> Setting[int]:
    reader = partial(conf.env_int, default=default, minimum=minimum, maximum=maximum)
    return Number(reader, shown=shown or str(default), meaning=meaning, variable=variable)


def number(default: float, minimum: float, maximum: float, meaning: str) -> Setting[float]:
    reader = partial(conf.env_float, default=default, minimum=minimum, maximum=maximum)
    return Number(reader, shown=f"{default:g}", meaning=meaning)


def share(default: float, meaning: str) -> Setting[float]:
    return Number(partial(conf.env_share, default=default), shown=f"{default:g}", meaning=meaning)


def seconds(default: float, meaning: str) -> Setting[float]:
    return Number(partial(conf.env_seconds, default=default), shown=f"{default:g}", meaning=meaning)


def boolean(meaning: str, *, default: bool, variable: str = "") -> Setting[bool]:
    reader = partial(conf.env_bool, default=default)
    return Setting(reader, shown=str(int(default)), meaning=meaning, variable=variable)


def text(default: str, meaning: str, *, shown: str = "") -> Setting[str]:
    return Setting(partial(conf.env_str, default=default), shown=shown or default, meaning=meaning)


def choice(default: str, choices: tuple[str, ...], meaning: str, *, ignore_case: bool = False) -> Setting[str]:
    reader = partial(conf.env_choice, default=default, choices=choices, ignore_case=ignore_case)
    return Setting(reader, shown=default, meaning=meaning)


def address(default: str, meaning: str) -> Setting[str]:
    return Setting(partial(conf.env_address, default=default), shown=default, meaning=meaning)


def names(default: tuple[str, ...], meaning: str, *, shown: str = "") -> Setting[list[str]]:
    return Setting(partial(conf.env_list, default=default), shown=shown or ", ".join(default), meaning=meaning)


def secret(meaning: str, *, shown: str = "") -> Setting[str]:
    return Setting(conf.env_secret, shown=shown, meaning=meaning)


def secret_address(meaning: str) -> Setting[str]:
    """Declare an address with a password, which can also be read from a file."""
    return Setting(lambda name: conf.checked_address(name, conf.env_secret(name)), shown="", meaning=meaning)


def identity_providers(meaning: str) -> Setting[tuple[IdentityProvider, ...]]:
    return Setting(lambda name: providers_from(name, conf.env_secret(name)), shown="", meaning=meaning)


def header(meaning: str) -> Setting[str]:
    return Setting(conf.env_header, shown="", meaning=meaning)


def proxies(meaning: str) -> Setting[list[str]]:
    return Setting(conf.env_proxies, shown="", meaning=meaning)


def zone(default: str, meaning: str, *, variable: str) -> Setting[str]:
    return Setting(partial(conf.env_time_zone, default=default), shown=default, meaning=meaning, variable=variable)


def folder(default: Path, meaning: str, *, shown: str, variable: str) -> Setting[Path]:
    return Setting(partial(conf.env_path, default=default), shown=shown, meaning=meaning, variable=variable)
