"""Django's settings. Those that a variable of the environment sets are declared in `convmemory/core/config.py`.

Nothing needs to be set: without any variable the product runs on 127.0.0.1 with an embedded
database in the data folder. docs/settings.md lists every variable.
"""

import os
from typing import Any
from urllib.parse import urlsplit

import dj_database_url

from convmemory.core import conf
from convmemory.core.conf import secret_key
from convmemory.core.config import Config, read_all
from convmemory.core.errors import SettingError
from convmemory.core.logs import logging_config
from convmemory.core.postgres import logins
from convmemory.core.program import FILES, ROOT, TO_INSTALL_EXTRAS

globals().update(read_all())

BASE_DIR = ROOT
VAR_DIR = Config.var_dir.read()
SECRET_KEY = Config.secret_key.read() or secret_key(VAR_DIR / "secret_key")
HTTPS_ONLY = Config.https_only.read()
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY
SESSION_COOKIE_NAME = "convmemory_session"
SESSION_ENGINE = "convmemory.sign_in.sessions.models"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS_ONLY else None
SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_REDIRECT_EXEMPT = [r"^(api/v1/)?(health|ready)$"]  # asked from inside, by machines that follow no redirect
SECURE_HSTS_SECONDS = Config.hsts_seconds.read() if HTTPS_ONLY else 0
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

INSTALLED_APPS = [
    "convmemory.core.administration.site.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django.contrib.postgres",
    "django_htmx",
    "template_partials",
    "django_q",
    "ninja",
    "convmemory.core",
    "convmemory.sign_in",
    "convmemory.sign_in.sessions",
    "convmemory.accounts",
    "convmemory.embeddings",
    "convmemory.conversations",
    "convmemory.documents",
    "convmemory.retention",
    "search",
    "memory",
    "summaries",
    "convmemory.context",
    "convmemory.tools",
    "convmemory.chat",
    "convmemory.mcp_server",
    "convmemory.ops",
]

MIDDLEWARE = [
    "convmemory.core.web.middleware.ActingMiddleware",
    "convmemory.core.web.middleware.RequestTraceMiddleware",
    "convmemory.problems.ProblemJsonMiddleware",
    "convmemory.core.web.middleware.SecurityMiddleware",
    "convmemory.core.web.middleware.ContentSecurityPolicyMiddleware",
    "convmemory.core.web.middleware.SessionMiddleware",
    "convmemory.core.web.languages.LanguageMiddleware",
    "convmemory.core.web.middleware.CommonMiddleware",
    "convmemory.core.web.middleware.CsrfViewMiddleware",
    "convmemory.http_limits.nul.NulMiddleware",
    "convmemory.core.web.middleware.AuthenticationMiddleware",
    "convmemory.core.web.middleware.MessageMiddleware",
    "convmemory.accounts.proxy_sign_in.ProxySignInMiddleware",
    "convmemory.core.web.middleware.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "convmemory.problems.PageErrorMiddleware",
    "convmemory.core.web.middleware.StaticFilesMiddleware",
]

# These look for three of Django's middlewares by name; `core/checks.py` also finds subclasses.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "convmemory.urls"
ASGI_APPLICATION = "convmemory.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [FILES / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["convmemory.core.templatetags.people"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "convmemory.core.web.languages.context",
                "convmemory.conversations.pages.search_box.empty_box",
            ],
        },
    },
]


DATABASE_URL = Config.database_url.read()
_logins = Config.database_app_url.read(), Config.database_maintenance_url.read()
_database: dict[str, Any] = (
    dict(dj_database_url.parse(DATABASE_URL)) if DATABASE_URL else {"NAME": "convmemory", "USER": "postgres"}
)
DATABASES = {
    "default": {
        **_database,
        "ENGINE": "convmemory.core.postgres",
        "EMBEDDED_PATH": None if DATABASE_URL else VAR_DIR / "postgres",
        "LOGINS": logins.external(*_logins) if DATABASE_URL else logins.EMBEDDED,
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **_database.get("OPTIONS", {}),
            "pool": {"min_size": 0, "max_size": Config.database_pool_size.read(), "timeout": 15},
        },
    }
}
DATABASE_ROUTERS = ["convmemory.core.postgres.groups.GroupRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"


DATA_UPLOAD_MAX_MEMORY_SIZE = Config.max_request_mb.read() * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FILES = 1_000  # of a folder
FILE_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024  # bytes of each file; larger ones are written to disk while they arrive
FILE_UPLOAD_HANDLERS = [
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "convmemory.core.files.uploads.NamelessFileUploadHandler",
]


TASK_TIMEOUT_S = Config.task_timeout_s.read()
# A child process of an import ends by itself before.
LONGEST_TASK_S = max(TASK_TIMEOUT_S, Config.import_timeout_s.read() + 60)
if os.environ.get("REDIS_URL") or os.environ.get("REDIS_URL_FILE"):
    raise SettingError(
        "REDIS_URL is no longer used, as the queue is in PostgreSQL: remove REDIS_URL and REDIS_URL_FILE from the "
        "settings of all processes, then stop Redis. Tasks of users are in PostgreSQL already; sweeps find other work."
    )
Q_CLUSTER = {
    "name": "convmemory",
    "broker_class": "convmemory.core.queue.broker.FairBroker",
    "workers": Config.workers.read(),
    "queue_limit": 1,
    "timeout": TASK_TIMEOUT_S,
    "retry": TASK_TIMEOUT_S + 60,  # unused by the broker, but django-q2 warns if it is not more than the timeout
    "save_limit": 500,
    "catch_up": False,
    "poll": 0.25,
    "label": "Tasks",
}


if Config.sso_only.read() and not (Config.oidc_providers.read() or Config.remote_user_header.read()):
    raise SettingError("SSO_ONLY needs OIDC_PROVIDERS or REMOTE_USER_HEADER: without one no user could sign in.")
if Config.remote_user_header.read() and Config.forwarded_allow_ips.read() in ([], ["*"]):
    raise SettingError(
        "REMOTE_USER_HEADER needs FORWARDED_ALLOW_IPS with the addresses or networks of the proxy, not *: only it may "
        "say who is signed in."
    )
if Config.remote_staff_groups.read() and not Config.remote_groups_header.read():
    raise SettingError("REMOTE_STAFF_GROUPS needs REMOTE_GROUPS_HEADER, which names the groups of a person.")


EMAIL_USE_TLS = Config.email_security.read() == "starttls"
EMAIL_USE_SSL = Config.email_security.read() == "tls"
EMAIL_TIMEOUT = Config.email_timeout_s.read()
DEFAULT_FROM_EMAIL = Config.email_from.read() or f"convmemory@{urlsplit(Config.public_url.read()).hostname}"
if Config.email_host.read() and not Config.public_url.read():
    raise SettingError(
        "EMAIL_HOST needs PUBLIC_URL: links in mail begin with it, and never with what a request names as the server."
    )
if Config.alert_emails.read() != ["none"] and not all("@" in address for address in Config.alert_emails.read()):
    raise SettingError("ALERT_EMAILS contains what is no address: use addresses separated by commas, or none.")


LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
STATIC_URL = "/static/"
STATICFILES_DIRS = [FILES / "static"]
STATIC_ROOT = VAR_DIR / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = Config.debug.read()
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("ja", "日本語"), ("he", "עברית")]
LANGUAGE_COOKIE_NAME = "language"
LOCALE_PATHS = [FILES / "locale"]
FORMAT_MODULE_PATH = ["convmemory.core.formats"]
USE_I18N = True
USE_TZ = True

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_RESET_TIMEOUT = 24 * 3_600  # seconds
PASSWORD_HASHERS = ["convmemory.sign_in.hashing.PooledHasher"]

for _setting, _module in (
    (Config.sentry_dsn, "sentry_sdk"),
    (Config.otel_exporter_otlp_endpoint, "opentelemetry.exporter"),
):
    if _setting.read() and not conf.is_installed(_module):
        raise SettingError(
            f"{_setting.variable} needs packages that are not installed: {TO_INSTALL_EXTRAS}, build the image with "
            "`--build-arg EXTRAS=1`, or unset it."
        )
LOGGING = logging_config(
    level=Config.log_level.read(), format=Config.log_format.read(), sentry_dsn=Config.sentry_dsn.read()
)
