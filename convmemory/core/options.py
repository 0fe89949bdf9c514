"""Settings as frozen values. Each app names in its `options.py` those that it reads; no other code reads any.

A field is named as its setting, in lower case: `task_slice_s` is `TASK_SLICE_S` of `convmemory.settings`.
"""

from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Self

from django.conf import settings


class FromSettings:
    """A frozen dataclass of settings."""

    __slots__ = ()

    @classmethod
    def from_settings(cls) -> Self:
        """What `convmemory.settings` says now."""
        return cls(**{name: getattr(settings, setting) for name, setting in _settings_of(cls)})  # type: ignore[arg-type]


@cache
def _settings_of(options: type[Any]) -> tuple[tuple[str, str], ...]:
    """The names of the fields and of their settings."""
    return tuple((each.name, each.name.upper()) for each in fields(options))


@dataclass(frozen=True, slots=True)
class PathOptions(FromSettings):
    """Where the program and its data are."""

    base_dir: Path
    var_dir: Path
    static_root: Path


@dataclass(frozen=True, slots=True)
class LanguageOptions(FromSettings):
    """The languages that pages are written in, as pairs of code and name, and the cookie that holds a chosen one."""

    language_code: str
    languages: list[tuple[str, str]]
    language_cookie_name: str


@dataclass(frozen=True, slots=True)
class QueueOptions(FromSettings):
    """How many tasks are worked on at once, and for how long."""

    workers: int
    task_timeout_s: int
    task_slice_s: float
    redis_url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ReplicaOptions(FromSettings):
    """How far a replica may be behind and still be read from."""

    database_replica_max_lag_mb: int


@dataclass(frozen=True, slots=True)
class EndpointOptions(FromSettings):
    """The endpoint for completions; empty texts where none is set up."""

    chat_base_url: str
    chat_model: str
    chat_context_window: int
    chat_timeout_s: float
    chat_api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SiteOptions(FromSettings):
    """What Django itself is set to: names and origins it answers to, sessions, HTTPS."""

    debug: bool
    https_only: bool
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    session_cookie_name: str
    session_engine: str
    session_save_every_request: bool
    secure_ssl_redirect: bool
    secure_proxy_ssl_header: tuple[str, str] | None
    installed_apps: list[str]
    database_pool_size: int
    secret_key: str = field(repr=False)
