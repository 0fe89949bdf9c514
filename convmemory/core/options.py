"""Settings as frozen values.

Each app declares the settings that it reads in its `options.py`; no other code reads them.

A field has the lower-case name of its setting: `task_slice_s` is `TASK_SLICE_S` in `convmemory.settings`.
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
        """Return the current values in `convmemory.settings`."""
        return cls(**{name: getattr(settings, setting) for name, setting in _settings_of(cls)})  # type: ignore[arg-type]


@cache
def _settings_of(options: type[Any]) -> tuple[tuple[str, str], ...]:
    """Return the names of the fields and of their settings."""
    return tuple((each.name, each.name.upper()) for each in fields(options))


@dataclass(frozen=True, slots=True)
class PathOptions(FromSettings):
    """The folders of the program and its data."""

    base_dir: Path
    var_dir: Path
    static_root: Path


@dataclass(frozen=True, slots=True)
class LanguageOptions(FromSettings):
    """The languages of pages, as pairs of code and name, and the cookie that stores a chosen one."""

    language_code: str
    languages: list[tuple[str, str]]
    language_cookie_name: str


@dataclass(frozen=True, slots=True)
class QueueOptions(FromSettings):
    """The number of workers, and the time limits of tasks."""

    workers: int
    task_timeout_s: int
    longest_task_s: int
    task_slice_s: float
    redis_url: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorkOptions(FromSettings):
    """The folder of temporary files, and the time limits of work that uses them."""

    temporary_folder: Path
    task_timeout_s: int
    import_timeout_s: int


@dataclass(frozen=True, slots=True)
class ReplicaOptions(FromSettings):
    """The largest lag of a replica that still serves reads."""

    database_replica_max_lag_mb: int


@dataclass(frozen=True, slots=True)
class EndpointOptions(FromSettings):
    """The endpoint for completions; empty strings if none is set up."""

    chat_base_url: str
    chat_model: str
    chat_context_window: int
    chat_timeout_s: float
    chat_api_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class SiteOptions(FromSettings):
    """Django's own settings: host names and origins, sessions, HTTPS."""

    debug: bool
    https_only: bool
    allowed_hosts: list[str]
    csrf_trusted_origins: list[str]
    session_cookie_name: str
    session_engine: str
    session_save_every_request: bool
    secure_ssl_redirect: bool
    secure_proxy_ssl_header: tuple[str, str] | None
    forwarded_allow_ips: list[str]
    installed_apps: list[str]
    database_pool_size: int
    secret_key: str = field(repr=False)
