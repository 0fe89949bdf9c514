"""All settings, read once from the environment with typed readers.

Nothing needs to be set: without any variable the product runs on 127.0.0.1 with an embedded
database under `var/`. docs/settings.md lists every variable.
"""

import os
from pathlib import Path
from typing import Any

import dj_database_url

from convmemory.core import conf, logins
from convmemory.core.logs import FORMATS, LEVELS, logging_config
from convmemory.core.secrets import secret_key

BASE_DIR = Path(__file__).resolve().parent.parent
VAR_DIR = conf.env_path("CONVMEMORY_VAR", BASE_DIR / "var")

DEBUG = conf.env_bool("DEBUG", default=False)
SECRET_KEY = conf.env_secret("SECRET_KEY") or secret_key(VAR_DIR / "secret_key")
ALLOWED_HOSTS = conf.env_list("ALLOWED_HOSTS", ("localhost", "127.0.0.1", "[::1]"))
CSRF_TRUSTED_ORIGINS = conf.env_list("CSRF_TRUSTED_ORIGINS")
HTTPS_ONLY = conf.env_bool("HTTPS_ONLY", default=False)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS_ONLY
SESSION_COOKIE_NAME = "convmemory_session"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if HTTPS_ONLY else None
FORWARDED_ALLOW_IPS = conf.env_proxies("FORWARDED_ALLOW_IPS")
SECURE_SSL_REDIRECT = HTTPS_ONLY
SECURE_REDIRECT_EXEMPT = [r"^(api/v1/)?(health|ready)$"]  # health checks from inside the network follow no redirect
HSTS_SECONDS = conf.env_int("HSTS_SECONDS", 30 * 24 * 3600, minimum=0, maximum=157_680_000)
SECURE_HSTS_SECONDS = HSTS_SECONDS if HTTPS_ONLY else 0
SECURE_HSTS_INCLUDE_SUBDOMAINS = conf.env_bool("HSTS_SUBDOMAINS", default=False)
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"

INSTALLED_APPS = [
    "convmemory.core.admin_apps.StaffAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
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
    "convmemory.accounts",
    "convmemory.embeddings",
    "convmemory.conversations",
    "convmemory.documents",
    "search",
    "memory",
    "summaries",
    "convmemory.context",
    "convmemory.tools",
    "convmemory.chat",
    "convmemory.mcp_server",
    "convmemory.ops",
    "convmemory.evaluation",
]

MIDDLEWARE = [
    "convmemory.core.middleware.ActingMiddleware",
    "convmemory.core.middleware.RequestTraceMiddleware",
    "convmemory.api_errors.ProblemJsonMiddleware",
    "convmemory.core.inline_middleware.SecurityMiddleware",
    "convmemory.core.middleware.ContentSecurityPolicyMiddleware",
    "convmemory.core.inline_middleware.SessionMiddleware",
    "convmemory.core.languages.LanguageMiddleware",
    "convmemory.core.inline_middleware.CommonMiddleware",
    "convmemory.core.inline_middleware.CsrfViewMiddleware",
    "convmemory.edge.nul.NulMiddleware",
    "convmemory.core.inline_middleware.AuthenticationMiddleware",
    "convmemory.core.inline_middleware.MessageMiddleware",
    "convmemory.core.inline_middleware.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "convmemory.page_errors.PageErrorMiddleware",
    "convmemory.core.inline_middleware.StaticFilesMiddleware",
]

# These look for three of Django's middlewares by name; `core/checks.py` also finds subclasses.
SILENCED_SYSTEM_CHECKS = ["security.W001", "security.W002", "security.W003"]

ROOT_URLCONF = "convmemory.urls"
ASGI_APPLICATION = "convmemory.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "convmemory.core.appearance.context",
            ],
        },
    },
]

# --- Database ---------------------------------------------------------------------------------

DATABASE_URL = conf.checked_address("DATABASE_URL", conf.env_secret("DATABASE_URL"))
DATABASE_POOL_SIZE = conf.env_int("DATABASE_POOL_SIZE", 8, minimum=1, maximum=1_000)
_database: dict[str, Any] = (
    dict(dj_database_url.parse(DATABASE_URL)) if DATABASE_URL else {"NAME": "convmemory", "USER": "postgres"}
)
DATABASE_APP_URL = conf.checked_address("DATABASE_APP_URL", conf.env_secret("DATABASE_APP_URL"))
DATABASE_MAINTENANCE_URL = conf.checked_address("DATABASE_MAINTENANCE_URL", conf.env_secret("DATABASE_MAINTENANCE_URL"))
DATABASE_REPLICA_URLS = [
    conf.checked_address("DATABASE_REPLICA_URLS", url)
    for url in conf.env_secret("DATABASE_REPLICA_URLS").replace(",", " ").split()
]
DATABASE_REPLICA_MAX_LAG_MB = conf.env_int("DATABASE_REPLICA_MAX_LAG_MB", 16, minimum=1, maximum=100_000)
DATABASES = {
    "default": {
        **_database,
        "ENGINE": "convmemory.core.postgres",
        "EMBEDDED_PATH": None if DATABASE_URL else VAR_DIR / "postgres",
        "LOGINS": logins.external(DATABASE_APP_URL, DATABASE_MAINTENANCE_URL) if DATABASE_URL else logins.EMBEDDED,
        "REPLICAS": logins.replicas(DATABASE_REPLICA_URLS),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {
            **_database.get("OPTIONS", {}),
            "pool": {"min_size": 0, "max_size": DATABASE_POOL_SIZE, "timeout": 15},
        },
    }
}
DATABASE_ROUTERS = ["convmemory.core.groups.GroupRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# --- Embeddings -------------------------------------------------------------------------------

EMBEDDING_PROVIDER = conf.env_choice("EMBEDDING_PROVIDER", "local", ("local", "openai"))
EMBEDDING_MODEL = conf.env_str("EMBEDDING_MODEL", "all-MiniLM-L6-v2")
EMBEDDING_MODEL_PATH = conf.env_str("EMBEDDING_MODEL_PATH")
EMBEDDING_BASE_URL = conf.env_address("EMBEDDING_BASE_URL", "https://api.openai.com/v1")
EMBEDDING_API_KEY = conf.env_secret("EMBEDDING_API_KEY")
EMBEDDING_DIMENSIONS = conf.env_int("EMBEDDING_DIMENSIONS", 0, minimum=0, maximum=4_000)
EMBEDDING_MAX_TOKENS = conf.env_int("EMBEDDING_MAX_TOKENS", 0, minimum=0, maximum=1_000_000)
EMBEDDING_TIMEOUT_S = conf.env_seconds("EMBEDDING_TIMEOUT_S", 60.0)
EMBEDDING_THREADS = conf.env_int("EMBEDDING_THREADS", 0, minimum=0, maximum=1_024)

# --- Search -----------------------------------------------------------------------------------

LATE_INTERACTION = conf.env_bool("LATE_INTERACTION", default=True)
MMR_LAMBDA = conf.env_float("MMR_LAMBDA", 0.97, minimum=0, maximum=1)
SEARCH_MIN_RELEVANCE = conf.env_float("SEARCH_MIN_RELEVANCE", 0.37, minimum=0, maximum=1)
RERANK_URL = conf.env_address("RERANK_URL")
RERANK_API_KEY = conf.env_secret("RERANK_API_KEY")
RERANK_MODEL = conf.env_str("RERANK_MODEL")
RERANK_SHAPE = conf.env_choice("RERANK_SHAPE", "cohere", ("cohere", "tei"))
RERANK_TIMEOUT_S = conf.env_seconds("RERANK_TIMEOUT_S", 0.8)
RERANK_TOP_K = conf.env_int("RERANK_TOP_K", 30, minimum=2, maximum=50)

# --- Chat model -------------------------------------------------------------------------------

CHAT_BASE_URL = conf.env_address("CHAT_BASE_URL")
CHAT_API_KEY = conf.env_secret("CHAT_API_KEY")
CHAT_MODEL = conf.env_str("CHAT_MODEL")
CHAT_CONTEXT_WINDOW = conf.env_int("CHAT_CONTEXT_WINDOW", 32_768, minimum=1_024, maximum=20_000_000)
CHAT_TIMEOUT_S = conf.env_seconds("CHAT_TIMEOUT_S", 120.0)
CHAT_ALLOWED_HOSTS = conf.env_list("CHAT_ALLOWED_HOSTS")
CHAT_DAILY_TOKENS = conf.env_int("CHAT_DAILY_TOKENS", 0, minimum=0, maximum=1_000_000_000_000)
CHAT_LEASE_S = conf.env_int("CHAT_LEASE_S", 30, minimum=2, maximum=3_600)

SUMMARY_MAX_TOKENS = conf.env_int("SUMMARY_MAX_TOKENS", 800, minimum=100, maximum=100_000)
CONTEXT_THRESHOLD = conf.env_share("CONTEXT_THRESHOLD", 0.8)
CONTEXT_SLIDING_MESSAGES = conf.env_int("CONTEXT_SLIDING_MESSAGES", 40, minimum=1, maximum=1_000_000)
CONTEXT_TOOL_OUTPUT_TOKENS = conf.env_int("CONTEXT_TOOL_OUTPUT_TOKENS", 300, minimum=10, maximum=1_000_000)
CONTEXT_RESURRECTION_TOKENS = conf.env_int("CONTEXT_RESURRECTION_TOKENS", 1_500, minimum=50, maximum=1_000_000)

# --- Memory -----------------------------------------------------------------------------------

CONVERSATION_MEMORY_ENABLED = conf.env_bool("CONVERSATION_MEMORY_ENABLED", default=True)
MAX_RECALL_TOKENS = conf.env_int("MAX_RECALL_TOKENS", 2000, minimum=1, maximum=20_000)
RECALL_TOP_K = conf.env_int("RECALL_TOP_K", 5, minimum=1, maximum=50)
RECALL_THRESHOLD = conf.env_float("RECALL_THRESHOLD", 0.4, minimum=0, maximum=1)
RECALL_MIN_RELEVANCE = conf.env_float("RECALL_MIN_RELEVANCE", 0.25, minimum=0, maximum=1)

# --- Ingest -----------------------------------------------------------------------------------

MAX_UPLOAD_MB = conf.env_int("MAX_UPLOAD_MB", 512, minimum=1, maximum=1_048_576)
MAX_STORED_MB_PER_USER = conf.env_int("MAX_STORED_MB_PER_USER", 20_480, minimum=0, maximum=100_000_000)
MAX_REQUEST_MB = conf.env_int("MAX_REQUEST_MB", 8, minimum=1, maximum=1_024)
MAX_ANONYMOUS_REQUEST_KB = conf.env_int("MAX_ANONYMOUS_REQUEST_KB", 1024, minimum=16, maximum=1_048_576)
DATA_UPLOAD_MAX_MEMORY_SIZE = MAX_REQUEST_MB * 1024 * 1024
DATA_UPLOAD_MAX_NUMBER_FILES = 1_000  # of a folder
FILE_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024  # bytes of each file; larger ones are written to disk while they arrive
FILE_UPLOAD_HANDLERS = [
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "convmemory.core.uploads.NamelessFileUploadHandler",
]
TEMPORARY_FOLDER = conf.env_path("TEMPORARY_FOLDER", VAR_DIR / "temporary")
HIDE_KEYS = conf.env_bool("HIDE_KEYS", default=True)
IMPORT_FOLDER = conf.env_path("IMPORT_FOLDER", VAR_DIR / "imports")
MAX_KEPT_UPLOADS_MB = conf.env_int("MAX_KEPT_UPLOADS_MB", 4_096, minimum=0, maximum=100_000_000)
IMPORT_TIMEOUT_S = conf.env_int("IMPORT_TIMEOUT_S", 1_800, minimum=10, maximum=86_400)
IMPORT_MEMORY_MB = conf.env_int("IMPORT_MEMORY_MB", 1_024, minimum=256, maximum=1_048_576)
MEDIA_ROOT = conf.env_path("MEDIA_ROOT", VAR_DIR / "media")
MAX_DOCUMENT_MB = conf.env_int("MAX_DOCUMENT_MB", 100, minimum=1, maximum=100_000)
MAX_LIBRARY_MB = conf.env_int("MAX_LIBRARY_MB", 2_048, minimum=1, maximum=100_000_000)
MAX_PAGE_PICTURES_MB = conf.env_int("MAX_PAGE_PICTURES_MB", 512, minimum=16, maximum=100_000_000)
MAX_DOCUMENT_PAGES = conf.env_int("MAX_DOCUMENT_PAGES", 10_000, minimum=1, maximum=1_000_000)
MAX_DOCUMENT_CHARS = conf.env_int("MAX_DOCUMENT_CHARS", 20_000_000, minimum=10_000, maximum=1_000_000_000)
DOCUMENT_TIMEOUT_S = conf.env_int("DOCUMENT_TIMEOUT_S", 300, minimum=5, maximum=3_600)
DOCUMENT_STALL_S = conf.env_int("DOCUMENT_STALL_S", 20, minimum=1, maximum=3_600)
DOCUMENT_MEMORY_MB = conf.env_int("DOCUMENT_MEMORY_MB", 1_024, minimum=256, maximum=1_048_576)
DOCUMENT_OCR = conf.env_bool("DOCUMENT_OCR", default=False)
RAG_ENABLED = conf.env_bool("RAG_ENABLED", default=True)
MAX_CONCURRENT_REQUESTS = conf.env_int("MAX_CONCURRENT_REQUESTS", 1000, minimum=8, maximum=1_000_000)
REQUEST_IDLE_S = conf.env_seconds("REQUEST_IDLE_S", 20.0)
REQUEST_MIN_BYTES_PER_S = conf.env_int("REQUEST_MIN_BYTES_PER_S", 4096, minimum=1, maximum=1_000_000_000)

# --- Queue ------------------------------------------------------------------------------------

# At least three: one that no long task takes, and places for the long tasks of two people.
WORKERS = conf.env_int("WORKERS", max(3, os.cpu_count() or 1), minimum=1, maximum=1_024)
TASK_TIMEOUT_S = conf.env_int("TASK_TIMEOUT_S", 600, minimum=10, maximum=86_400)
# The child process of an import ends before its task's limit.
LONGEST_TASK_S = max(TASK_TIMEOUT_S, IMPORT_TIMEOUT_S + 60)
TASK_SLICE_S = conf.env_seconds("TASK_SLICE_S", 3.0)
REDIS_URL = conf.checked_address("REDIS_URL", conf.env_secret("REDIS_URL"))
REDIS_TIMEOUTS = {"socket_connect_timeout": "5", "socket_timeout": "15"}
Q_CLUSTER = {
    "name": "convmemory",
    "workers": WORKERS,
    "queue_limit": 1,  # a task prefetched by a busy worker would wait although others are idle
    "timeout": TASK_TIMEOUT_S,
    "retry": TASK_TIMEOUT_S + 60,
    "max_attempts": 5,
    "save_limit": 500,
    "catch_up": False,
    "poll": 0.25,
    "label": "Tasks",
    **({"redis": conf.with_parameters(REDIS_URL, REDIS_TIMEOUTS)} if REDIS_URL else {"orm": "default"}),
}

# --- Fairness ---------------------------------------------------------------------------------

REQUESTS_PER_USER = conf.env_int("REQUESTS_PER_USER", 4, minimum=1, maximum=100_000)
REQUESTS_BESIDE_OTHERS = conf.env_int("REQUESTS_BESIDE_OTHERS", 1, minimum=1, maximum=100_000)
STREAMS_PER_USER = conf.env_int("STREAMS_PER_USER", 64, minimum=1, maximum=100_000)
WAITING_PER_USER = conf.env_int("WAITING_PER_USER", 64, minimum=0, maximum=100_000)

# --- Observability ----------------------------------------------------------------------------

METRICS = conf.env_bool("METRICS", default=False)
METRICS_TOKEN = conf.env_secret("METRICS_TOKEN")
MEASURES_FLUSH_S = conf.env_seconds("MEASURES_FLUSH_S", 10.0)

# --- Pages ------------------------------------------------------------------------------------

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR_DIR / "static"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
LANGUAGE_CODE = "en"
LANGUAGES = [("en", "English"), ("de", "Deutsch"), ("ja", "日本語"), ("he", "עברית")]
LANGUAGE_COOKIE_NAME = "language"
LOCALE_PATHS = [BASE_DIR / "locale"]
FORMAT_MODULE_PATH = ["convmemory.core.formats"]
TIME_ZONE = conf.env_time_zone("TZ", "UTC")
USE_I18N = True
USE_TZ = True

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
PASSWORD_HASHERS = ["convmemory.sign_in.hashing.PooledHasher"]

LOG_LEVEL = conf.env_choice("LOG_LEVEL", "INFO", LEVELS, ignore_case=True)
LOG_FORMAT = conf.env_choice("LOG_FORMAT", "plain", FORMATS)
LOGGING = logging_config(level=LOG_LEVEL, format=LOG_FORMAT)
