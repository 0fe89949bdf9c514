"""Every setting, declared once: its variable, how it is read, its default and its meaning.

`convmemory.settings` reads all of them when a process starts, and refuses what is out of range; `docs/settings.md` is
written from them by `make settings`. Code reads a value as `config.task_slice_s`; nothing else reads Django's settings.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convmemory.core import conf
from convmemory.core.logs import FORMATS, LEVELS
from convmemory.core.setting_kinds import (
    Computed,
    Setting,
    address,
    boolean,
    choice,
    folder,
    header,
    identity_providers,
    names,
    number,
    proxies,
    seconds,
    secret,
    secret_address,
    share,
    text,
    whole,
    zone,
)

OWN_BACKUPS = "backups"
TABLE_HEAD = "| variable | default | meaning |\n|---|---|---|\n"


def folder_in_var(default: str, meaning: str) -> Setting[Path]:
    def read(name: str) -> Path:
        return conf.env_path(name, Config.var_dir.read() / default)

    return Setting(read, shown=f"`{default}/` in `CONVMEMORY_VAR`", meaning=meaning)


def _has_own_backups() -> bool:
    """Return whether backups go to the data folder, because nothing names another place."""
    return not conf.env_str("BACKUP_FOLDER") and not Config.database_url.read()


def backup_place(meaning: str) -> Setting[str]:
    def read(name: str) -> str:
        if _has_own_backups():
            return str(Config.var_dir.read() / OWN_BACKUPS)
        named = conf.env_str(name)
        return "" if named == "off" else named

    return Setting(read, shown=f"`{OWN_BACKUPS}/` in `CONVMEMORY_VAR`", meaning=meaning)


def kept_backups(meaning: str) -> Setting[int]:
    def read(name: str) -> int:
        return conf.env_int(name, 3 if _has_own_backups() else 14, minimum=1, maximum=100_000)

    return Setting(read, shown="3 in the data folder, 14 elsewhere", meaning=meaning)


class Config:
    """The settings in force. A field has the lower-case name of its setting in `convmemory.settings`."""

    # --- Data and database ---

    var_dir = folder("var", "where the embedded database, the model and the signing key lie", variable="CONVMEMORY_VAR")
    database_url = secret_address("an own PostgreSQL ≥ 15 with pgvector ≥ 0.8; empty: the embedded PostgreSQL 18")
    database_app_url = secret_address(
        "with `DATABASE_URL`: the log-in of the application, which `manage.py setup_roles` makes; without it all "
        "work is done as `DATABASE_URL` ([ADR 66](adr/0066-row-level-security.md))"
    )
    database_maintenance_url = secret_address("the same for the log-in of maintenance")
    database_pool_size = whole(8, 1, 1000, "connections per process and log-in")

    # --- Web server ---

    host = text("", "the address where the web server listens", shown="127.0.0.1")
    port = whole(8000, 0, 65_535, "the port where it listens")
    allowed_hosts = names(
        ("localhost", "127.0.0.1", "[::1]"),
        "the names under which others reach the server, separated by commas",
        shown="local names",
    )
    csrf_trusted_origins = names((), "the origins of these names, such as `https://chat.example.org`")
    https_only = boolean(
        "secure cookies, redirects to HTTPS, HSTS; trusts `X-Forwarded-Proto`, which the proxy has to set",
        default=False,
    )
    hsts_seconds = whole(
        30 * 24 * 3_600,
        0,
        157_680_000,
        "with `HTTPS_ONLY`: how long browsers refuse plain HTTP after a response over HTTPS; 0: they never do",
    )
    secure_hsts_include_subdomains = boolean(
        "the same for all subdomains, which may be other servers", default=False, variable="HSTS_SUBDOMAINS"
    )
    forwarded_allow_ips = proxies(
        "addresses and networks of proxies whose `X-Forwarded-For` is trusted, separated by commas; empty: none, "
        "not even one on this machine"
    )
    secret_key = secret("the signing key", shown="generated once")

    # --- Signing in ---

    oidc_providers = identity_providers(
        "identity providers with which people sign in, as JSON: [Identity providers](#identity-providers)"
    )
    remote_user_header = header(
        "a header such as `X-Forwarded-User` in which a proxy of `FORWARDED_ALLOW_IPS` names who is signed in: "
        "[Sign-in by a proxy](#sign-in-by-a-proxy)",
    )
    remote_user_scim = boolean(
        "1: the proxy names people by the userName or externalId that [SCIM](#a-directory-by-scim) gives them; who is "
        "named for the first time signs in to the account that SCIM made",
        default=False,
    )
    remote_groups_header = header("a header in which that proxy names the person's groups, separated by commas")
    remote_staff_groups = names((), "groups of that header whose members are staff; empty: it makes nobody staff")
    remote_sign_out_url = text(
        "", "the address where that proxy ends its own session, such as `https://id.example.org/oauth2/sign_out`"
    )
    sso_only = boolean(
        "1: no password is accepted, chosen or reset; people sign in by `OIDC_PROVIDERS` or `REMOTE_USER_HEADER` "
        "alone, programs by their keys",
        default=False,
    )

    require_second_factor = choice(
        "off",
        ("off", "staff", "all"),
        "who cannot sign in with a password alone: `staff` and superusers, or `all`; who has no second factor yet sets "
        "one up after the next right password ([Second factors](#second-factors))",
    )

    # --- E-mail ---

    email_host = text(
        "",
        "the SMTP server that sends invitations, links to reset passwords, and notices, with links that begin with "
        "`PUBLIC_URL`; empty: no mail is sent, and administrators pass the links on ([operation.md](operation.md))",
    )
    email_port = whole(587, 1, 65_535, "its port")
    email_security = choice(
        "starttls",
        ("starttls", "tls", "none"),
        "`starttls`, `tls` from the first byte (port 465), or `none` for a server on this machine",
    )
    email_host_user = text("", "the user name at this server, if it asks for one")
    email_host_password = secret("the password at this server")
    email_from = text("", "the sender's address", shown="`convmemory@` and the host of `PUBLIC_URL`")
    email_timeout_s = seconds(15.0, "how long the SMTP server may be silent")
    alert_emails = names(
        (),
        "addresses, separated by commas, that are mailed what the hourly `doctor` finds newly wrong; `none`: nobody is",
        shown="those of superusers",
    )

    # --- Queue and fairness ---

    # At least three: one that no long task takes, and places for the long tasks of two people.
    workers = whole(
        max(3, os.cpu_count() or 1),
        1,
        1024,
        "worker processes of `manage.py up`; all workers but one can do long work (imports, documents, drawings, "
        "archives, summaries) at the same time, and one user leaves a place for another's; with two there is one "
        "place for all, with one it does nothing else meanwhile ([ADR 24](adr/0024-fair-scheduling-by-owner.md))",
        shown="number of cores but at least 3",
    )
    web_workers = whole(1, 1, 1_024, "web processes of `manage.py up`")
    task_timeout_s = whole(600, 10, 86_400, "time limit of one background task; imports have their own")
    task_slice_s = seconds(
        3.0,
        "after how long a task of one user yields to those of others ([ADR 24](adr/0024-fair-scheduling-by-owner.md))",
    )
    requests_per_user = whole(4, 1, 100_000, "requests of one user that a web process handles at once")
    requests_beside_others = whole(
        1, 1, 100_000, "the same of a user who has recently taken much of its time, while others are active"
    )
    streams_per_user = whole(
        64,
        1,
        100_000,
        "the same for responses that are streamed or wait for a language model; an address without a key or session "
        "has at most 2, and all of those together half of `DATABASE_POOL_SIZE`",
    )
    waiting_per_user = whole(64, 0, 100_000, "how many more may wait; beyond that the response is 429")

    # --- Embeddings ---

    embedding_provider = choice("local", ("local", "openai"), "`local`, or `openai` for any OpenAI-compatible endpoint")
    embedding_model = text("all-MiniLM-L6-v2", "the model's name")
    embedding_model_path = text(
        "", "a folder with another sentence model, or one of its graphs (`.onnx`): [models.md](models.md)"
    )
    embedding_token_model = text(
        "all-MiniLM-L6-v2",
        "the model whose token vectors are compared (late interaction): this one, a folder, or `none`",
    )
    embedding_base_url = address("https://api.openai.com/v1", "the address of the endpoint")
    embedding_api_key = secret("the key of the endpoint")
    embedding_dimensions = whole(
        0,
        0,
        4000,
        "of the endpoint's model; of a folder's: fewer dimensions (Matryoshka)",
        shown="known for common models",
    )
    embedding_max_tokens = whole(
        0,
        0,
        1_000_000,
        "of the endpoint's model; of a folder's: tokens read at a time (512 of a graph)",
        shown="known for common models",
    )
    embedding_timeout_s = seconds(60.0, "how long the endpoint may take")
    embedding_threads = whole(0, 0, 1024, "threads of the local model", shown="number of cores")

    # --- Search ---

    late_interaction = boolean("token-level reranking; its storage is about that of the passages", default=True)
    mmr_lambda = number(1, 0, 1, "0 to 1; 1 ranks by relevance alone, less makes the first hits more diverse")
    search_min_relevance = number(
        0.37,
        0,
        1,
        "0 to 1: if the probability that any hit answers is below this, a search says that nothing does; 0: it "
        "never says so ([ADR 58](adr/0058-calibrated-relevance.md))",
    )
    rerank_url = address(
        "",
        "a reranker whose scores are blended into the order of the best hits: its full address, which usually ends "
        "in `/rerank`; `manage.py evaluate --fit-reranker` determines its weight ([ADR "
        "20](adr/0020-optional-reranker.md))",
    )
    rerank_api_key = secret("the key of the reranker")
    rerank_model = text("", "the model of the reranker")
    rerank_shape = choice(
        "cohere",
        ("cohere", "tei"),
        "the format of its requests: `cohere` (also Jina, vLLM, llama.cpp, LiteLLM) or `tei` (Text Embeddings "
        "Inference)",
    )
    rerank_timeout_s = seconds(0.8, "how long a search waits for it in all; after that the fused order is kept")
    rerank_top_k = whole(
        30, 2, 50, "how many of the best turns it is sent, 2 to 50; TEI takes 32 unless configured otherwise"
    )

    # --- Recall ---

    conversation_memory_enabled = boolean(
        "0 switches recall off, and the tools `recall` and `conversation_recall` are not offered", default=True
    )
    max_recall_tokens = whole(2000, 1, 20_000, "budget of a recalled context, up to 20,000")
    recall_top_k = whole(5, 1, 50, "number of messages that a recall returns, 1 to 50")
    recall_threshold = number(
        0.4, 0, 1, "minimum cosine similarity of these messages, 0 to 1, with a model whose relevance is not calibrated"
    )
    recall_min_relevance = number(
        0.25,
        0,
        1,
        "as `SEARCH_MIN_RELEVANCE`, for recall, which then returns nothing ([ADR 59](adr/0059-relevance-threshold.md))",
    )

    # --- Agents over MCP ---

    mcp_all_tools = boolean(
        "1: MCP lists all tools, not only the four for agents; those that it does not list answer, too", default=False
    )
    mcp_marking = boolean(
        "1: agents get a tool that marks turns wrong or outdated, over MCP and as `POST /api/v1/tools/mark_turn`; it "
        "takes a key that may write ([ADR 99](adr/0099-marked-turns.md))",
        default=False,
    )
    mcp_oauth = boolean(
        "agents may ask for access by OAuth: a person who is signed in agrees on a page, and the agent gets a key that "
        "only reads, which the page of keys lists and revokes ([ADR 92](adr/0092-oauth-by-the-mcp-sdk.md)); needs an "
        "address that begins with https:// or is of this machine",
        default=True,
    )
    public_url = address(
        "",
        "the address under which people reach the server: links in the answers of tools begin with it; empty: the one "
        "that the request named, or none over standard input and output",
    )

    sharing = choice(
        "people",
        ("off", "people", "anybody"),
        "who may open the links that people make to their conversations: `people` who are signed in, `anybody` if the "
        "link's owner chose that; `off`: no link can be made or opened ([ADR 102](adr/0102-share-links.md))",
    )
    sharing_max_days = whole(
        0,
        0,
        36_500,
        "the days for which such a link works at most, also one that was made before; 0: for ever, if its owner chose "
        "that",
    )

    make_spaces = choice(
        "everybody",
        ("everybody", "permitted"),
        "who may make spaces: `permitted` are superusers and those with the permission `accounts.make_spaces` "
        "([ADR 101](adr/0101-archives-and-callers.md))",
    )

    audit_days = whole(
        365,
        0,
        36_500,
        "days for which entries of the audit log are kept; 0: for ever ([ADR 103](adr/0103-audit-log.md))",
    )

    # --- Model for chat and summaries ---

    chat_base_url = address("", "the OpenAI-compatible endpoint for chat, summaries and the capture proxy")
    chat_api_key = secret("the key of this endpoint")
    chat_model = text("", "the model of this endpoint")
    chat_context_window = whole(32_768, 1024, 20_000_000, "tokens that its model takes")
    chat_timeout_s = seconds(120.0, "how long the endpoint may be silent")
    chat_allowed_hosts = names(
        (),
        "hosts that all users' agents may use, including hosts inside your network; `*`: every public host. Staff "
        "may use any public host; addresses of this machine and of private networks must be listed here, or need a "
        "superuser or the permission `chat.use_private_address` "
        "([ADR 23](adr/0023-restrict-addresses-keys-and-spending.md))",
    )
    chat_daily_tokens = whole(
        0,
        0,
        1_000_000_000_000,
        "tokens a day that each person, and each space, may use of the server's own model, in chats, summaries and the "
        "capture proxy; 0: no limit",
    )
    chat_monthly_tokens = whole(
        0,
        0,
        1_000_000_000_000,
        "the same a month, without a quota of their own or of their groups: [Quotas](#quotas); 0: no limit",
    )
    chat_lease_s = whole(30, 2, 3600, "how long a process that died keeps a conversation busy")
    summary_max_tokens = whole(800, 100, 100_000, "length of a summary")
    context_threshold = share(0.8, "share of the window above which the context is shortened")
    context_sliding_messages = whole(40, 1, 1_000_000, "number of messages that `sliding_window` keeps")
    context_tool_output_tokens = whole(300, 10, 1_000_000, "length to which `tool_output_trim` cuts each tool output")
    context_resurrection_tokens = whole(1500, 50, 1_000_000, "how much `resurrection` may bring back")

    # --- Sizes of requests ---

    max_upload_mb = whole(512, 1, 1_048_576, "size limit of one upload to the import routes, for authenticated users")
    max_stored_mb_per_user = whole(
        20_480,
        0,
        100_000_000,
        "how much a person may store in all, in their own archive and in spaces, and how much a space may, without a "
        "[quota](#quotas) of their own or of their groups; 0: unlimited",
    )
    max_turns_per_user = whole(0, 0, 1_000_000_000_000, "the same, how many turns; 0: any number")
    max_documents_per_user = whole(0, 0, 1_000_000_000_000, "the same, how many documents; 0: any number")
    quota_contact = text(
        "", "whom a refusal tells people to ask for more, such as `it@example.org`", shown="whoever runs this server"
    )
    max_request_mb = whole(8, 1, 1024, "size limit of any other request of a signed-in user")
    max_anonymous_request_kb = whole(1024, 16, 1_048_576, "size limit of a request without a valid key or session")
    max_concurrent_requests = whole(
        1000,
        8,
        1_000_000,
        "requests that a web process handles at once, streams included; more get 503. One user, or one address "
        "without a key or session, has at most a quarter (429), and those without leave the last quarter to users; "
        "half as many more may still be sending their bodies",
    )
    drain_s = number(
        0.0,
        0.0,
        3_600.0,
        "how long `manage.py web` goes on after SIGTERM: `/ready` answers 503 at once, connections are accepted for a "
        "third of it, and replies have until its end, at least 5 s ([deployment.md](deployment.md#rolling-restarts))",
    )
    request_idle_s = seconds(20.0, "how long a client may be silent while it sends a request")
    request_min_bytes_per_s = whole(4096, 1, 1_000_000_000, "how slowly a body may come after that time")

    # --- Backups ---

    backup_folder = backup_place(
        "where `manage.py up` writes backups of the embedded database: a folder, better on another disk, or "
        "`s3://BUCKET/PREFIX` ([operation.md](operation.md)); off: nowhere"
    )
    backup_every_h = whole(24, 1, 8_760, "hours from one of these backups to the next")
    backup_keep = kept_backups("how many of them are kept; older ones are deleted")

    # --- Imports ---

    import_timeout_s = whole(
        1800, 10, 86_400, "time limit of one import: 10 s to a day ([ADR 21](adr/0021-imports-in-a-child-process.md))"
    )
    import_memory_mb = whole(1024, 256, 1_048_576, "memory limit of the same, at least 256 MB")
    samples = boolean(
        "1: the first start of `manage.py up` on a new database loads sample conversations, as `make run` does; "
        "`manage.py samples --remove` takes them out",
        default=False,
    )
    hide_keys = boolean(
        "replace keys, tokens and passwords in imported conversations, chats and documents by placeholders; those "
        "of conversations are kept, encrypted ([ADR 36](adr/0036-replace-secrets-before-storing.md)); 0: store "
        "texts unchanged",
        default=True,
    )
    archive_automated = boolean(
        "archive sessions that programs started (observers, runs through an SDK) when they are imported, so that "
        "search and recall leave them out; all of them get the tag `automated`; 0: only the tag",
        default=True,
    )
    import_folder = folder_in_var(
        "imports", "where uploads wait for a worker; on several machines a folder that all of them share"
    )
    temporary_folder = folder_in_var(
        "temporary",
        "where imports, conversions and drawings put their temporary files, in a subfolder for each machine; an "
        "import needs up to 2 GB there. It may be in memory, or be shared by machines",
    )
    max_kept_uploads_mb = whole(
        4096,
        0,
        100_000_000,
        "disk space for the kept uploads of each archive, which can be read again: the oldest are deleted first; 0: "
        "keep none ([ADR 47](adr/0047-keep-uploads-for-reimport.md))",
    )
    media_root = folder_in_var(
        "media",
        "the folder for the files of documents, pictures of their pages and kept uploads; on several machines a "
        "folder that all of them share",
    )

    # --- Documents ---

    max_document_mb = whole(100, 1, 100_000, "size limit of one document")
    trash_days = whole(
        30,
        0,
        3650,
        "how many days deleted conversations and documents stay in the trash, from which their owners can put them "
        "back; 0: deleting is for good ([ADR 104](adr/0104-trash.md))",
    )
    max_library_mb = whole(2048, 1, 100_000_000, "size limit of all documents of one archive, also of a space")
    max_page_pictures_mb = whole(
        512,
        16,
        100_000_000,
        "disk space for pictures of pages of each archive, at least 16: those not opened for longest are deleted "
        "first, and drawn again when somebody opens the page ([ADR 30](adr/0030-converters-in-a-confined-process.md))",
    )
    max_document_pages = whole(10_000, 1, 1_000_000, "how many pages a document may have")
    max_document_chars = whole(20_000_000, 10_000, 1_000_000_000, "how many characters a document may have")
    document_timeout_s = whole(
        300,
        5,
        3600,
        "time limit of converting one document: from 5 s to a minute less than `TASK_TIMEOUT_S` ([ADR "
        "30](adr/0030-converters-in-a-confined-process.md))",
    )
    document_memory_mb = whole(1024, 256, 1_048_576, "memory limit of the same, at least 256 MB")
    document_stall_s = whole(
        20,
        1,
        3600,
        "seconds of processor time without progress after which reading or drawing a document is ended: 1 to 3600; "
        "raise it on slow machines",
    )
    document_ocr = boolean("recognise the text of scanned pages with tesseract, which must be installed", default=False)
    rag_enabled = boolean(
        "embed documents; 0: they are found by their words alone ([ADR "
        "31](adr/0031-one-space-for-documents-and-turns.md))",
        default=True,
    )

    # --- Observation and pages ---

    log_level = choice("INFO", LEVELS, "`DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`", ignore_case=True)
    log_format = choice("plain", FORMATS, "`json`: one JSON object a line")
    sentry_dsn = secret_address(
        "a Sentry project that errors are sent to, without texts of people "
        "([observability.md](observability.md#traces-and-errors))",
    )
    otel_exporter_otlp_endpoint = address(
        "",
        "a collector of OpenTelemetry that spans are sent to by HTTP, such as `http://collector:4318`; the other "
        "`OTEL_` variables of its exporter work, too",
    )
    metrics = boolean("serve `/metrics` for Prometheus", default=False)
    metrics_token = secret("the bearer token that it asks for")
    measures_flush_s = seconds(10.0, "how often a process stores what it measured")
    time_zone = zone("UTC", "time zone of the pages", variable="TZ")
    debug = boolean("error pages with code; never use it on a server that others can reach", default=False)

    # --- Computed in `convmemory.settings`, or Django's own ---

    base_dir = Computed[Path]()
    static_root = Computed[Path]()
    static_url = Computed[str]()
    longest_task_s = Computed[int]()
    data_upload_max_number_files = Computed[int]()
    installed_apps = Computed[list[str]]()
    language_code = Computed[str]()
    languages = Computed[list[tuple[str, str]]]()
    language_cookie_name = Computed[str]()
    session_cookie_name = Computed[str]()
    session_engine = Computed[str]()
    session_save_every_request = Computed[bool]()
    default_from_email = Computed[str]()
    password_reset_timeout = Computed[int]()
    secure_ssl_redirect = Computed[bool]()
    secure_proxy_ssl_header = Computed[tuple[str, str] | None]()


config = Config()


def declared() -> Iterator[Setting[Any]]:
    """Yield every setting that a variable sets, in the order of the documentation."""
    yield from (each for each in vars(Config).values() if isinstance(each, Setting))


def read_all() -> dict[str, Any]:
    """Return the values of all settings by their names. Raises: SettingError."""
    return {each.name: each.read() for each in declared()}


def documented(page: str) -> str:
    """Return the page of settings with a new table in place of its first one."""
    rows = (f"| `{each.variable}` | {each.shown} | {each.meaning} |".replace("|  |", "| |") for each in declared())
    before, head, rest = page.partition(TABLE_HEAD)
    return before + head + "".join(f"{row}\n" for row in rows) + rest[rest.index("\n\n") + 1 :]


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(documented(page.read_text(encoding="utf-8")), encoding="utf-8")
