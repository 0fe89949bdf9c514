"""System checks about HTTPS for `manage.py check --deploy`.

Django's own checks look for its middlewares and its app of sessions by name and report nothing about subclasses, which
this program uses. These look for the class, and then give Django's own warnings.
"""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.checks.security import base, csrf, sessions
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.csrf import CsrfViewMiddleware
from django.middleware.security import SecurityMiddleware
from django.utils.module_loading import import_string

from convmemory.core.config import config

NEEDED = (SecurityMiddleware, XFrameOptionsMiddleware, CsrfViewMiddleware)

# Not required: HSTS for subdomains and browsers' preload lists. Both bind names that may belong to other servers, so
# the operator decides (HSTS_SUBDOMAINS).
WARNINGS: tuple[tuple[CheckMessage, Callable[[], bool]], ...] = (
    (base.W004, lambda: bool(settings.SECURE_HSTS_SECONDS)),
    (base.W006, lambda: settings.SECURE_CONTENT_TYPE_NOSNIFF),
    (base.W008, lambda: settings.SECURE_SSL_REDIRECT),
    (base.W019, lambda: settings.X_FRAME_OPTIONS == "DENY"),
    (base.W022, lambda: settings.SECURE_REFERRER_POLICY is not None),
    (sessions.W012, lambda: settings.SESSION_COOKIE_SECURE),
    (sessions.W015, lambda: settings.SESSION_COOKIE_HTTPONLY),
    (csrf.W016, lambda: settings.CSRF_USE_SESSIONS or settings.CSRF_COOKIE_SECURE),
)

PROXY_WITHOUT_ADDRESS = Warning(
    "HTTPS_ONLY is set, but FORWARDED_ALLOW_IPS names no proxy.",
    hint="All clients count as one address, the proxy's, so that wrong passwords of one make all of them wait. Set "
    "FORWARDED_ALLOW_IPS to the proxy's address, 127.0.0.1 where it runs on this machine.",
    id="convmemory.W001",
)


@register(Tags.security, deploy=True)
def check_proxy(**kwargs: Any) -> list[CheckMessage]:
    """Return a warning if there has to be a proxy in front and none is named."""
    return [PROXY_WITHOUT_ADDRESS] if config.https_only and not config.forwarded_allow_ips else []


@register(Tags.security, deploy=True)
def check_middlewares(**kwargs: Any) -> list[CheckMessage]:
    """Return an error for each of Django's protections that no middleware provides."""
    present = [middleware for path in settings.MIDDLEWARE if isinstance(middleware := import_string(path), type)]
    return [
        Error(f"No middleware is or derives from {needed.__name__}.", id=f"convmemory.E{number:03}")
        for number, needed in enumerate(NEEDED, start=1)
        if not any(issubclass(middleware, needed) for middleware in present)
    ]


@register(Tags.security, deploy=True)
def check_https(**kwargs: Any) -> list[CheckMessage]:
    """Return Django's warnings about the settings of the middlewares."""
    return [warning for warning, is_fine in WARNINGS if not is_fine()]
