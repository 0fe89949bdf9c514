"""Every setting, declared once: its variable, how it is read, its default and its meaning.

`convmemory.settings` reads all of them when a process starts, and refuses what is out of range; `docs/settings.md` is
written from them by `make settings`. Code reads a value as `config.task_slice_s`; nothing else reads Django's settings.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from convmemory.core import conf
from convmemory.core.logs import FORMATS, LEVELS
from convmemory.core.program import COMMAND
from convmemory.core.server_settings import ServerSettings
from convmemory.core.setting_kinds import (
    Computed,
    Setting,
    address,
    boolean,
    choice,
    names,
    number,
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


class Config(ServerSettings):
    """The settings in force. A field has the lower-case name of its setting in `convmemory.settings`."""

    # Embeddings

    embedding_provider = choice(
        "local",
        ("local", "openai"),
        "what computes the vectors of texts: `local` (this machine), or `openai` (any OpenAI-compatible endpoint)",
    )
    embedding_model = text(
        "all-MiniLM-L6-v2-int8",
        "the name of the model that computes the vectors of texts; `all-MiniLM-L6-v2` is the same in floating point, "
        "at twice the processor time",
    )
    embedding_model_path = text(
        "", "with `local`: a folder with another model, or one of its graphs (`.onnx`): [models.md](models.md)"
    )
    embedding_token_model = text(
        "all-MiniLM-L6-v2-int8",
        "the model of the vectors of single words, by which the best hits are ordered again: this one, "
        "`all-MiniLM-L6-v2`, a folder, or `none`",
    )
    hf_endpoint = address(
        "https://huggingface.co",
        f"the hub of `{COMMAND} models --get`, and of the default model, which `{COMMAND} up` downloads unless it is "
        "installed",
    )
    embedding_base_url = address(
        "https://api.openai.com/v1", "with `openai`: the address of the endpoint that computes vectors"
    )
    embedding_api_key = secret("the key for `EMBEDDING_BASE_URL`")
    embedding_dimensions = whole(
        0,
        0,
        4000,
        "the number of dimensions of the endpoint's vectors; of a folder's model: how many of them are kept "
        "(Matryoshka)",
        shown="known for common models",
    )
    embedding_max_tokens = whole(
        0,
        0,
        1_000_000,
        "the most tokens that the endpoint's model reads; of a folder's model: how many it reads at a time (512 of a "
        "graph)",
        shown="known for common models",
    )
    embedding_timeout_s = seconds(60.0, "seconds for which `EMBEDDING_BASE_URL` may take to answer")
    embedding_threads = whole(
        0, 0, 1024, "threads with which the local model computes vectors", shown="number of cores"
    )

    # Search

    late_interaction = boolean(
        "1: the best hits are ordered again by the vectors of single words, which take about as much space as the "
        "passages",
        default=True,
    )
    mmr_lambda = number(
        1, 0, 1, "0 to 1: how the first hits are ordered; 1: by relevance alone, less: with more diversity"
    )
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
        f"in `/rerank`; `{COMMAND} evaluate --fit-reranker` determines its weight ([ADR "
        "20](adr/0020-optional-reranker.md))",
    )
    rerank_api_key = secret("the key for `RERANK_URL`")
    rerank_model = text("", "the name of the model at `RERANK_URL`")
    rerank_shape = choice(
        "cohere",
        ("cohere", "tei"),
        "the format of the requests to `RERANK_URL`: `cohere` (also Jina, vLLM, llama.cpp, LiteLLM) or `tei` (Text "
        "Embeddings Inference)",
    )
    rerank_timeout_s = seconds(
        0.8, "seconds that a search waits for `RERANK_URL` in all; then the order stays as it was"
    )
    rerank_top_k = whole(
        30,
        2,
        50,
        "how many of the best turns are sent to `RERANK_URL`, 2 to 50; TEI takes 32 unless configured otherwise",
    )

    # Recall

    conversation_memory_enabled = boolean(
        "0 switches recall off, and the tools `recall` and `conversation_recall` are not offered", default=True
    )
    max_recall_tokens = whole(2000, 1, 20_000, "the most tokens of the text that a recall returns, up to 20,000")
    recall_top_k = whole(5, 1, 50, "the number of messages that a recall returns, 1 to 50")
    recall_threshold = number(
        0.4,
        0,
        1,
        "the least cosine similarity, 0 to 1, of messages that a recall returns, with a model whose relevance is not "
        "calibrated",
    )
    recall_min_relevance = number(
        0.25,
        0,
        1,
        "0 to 1: if the probability that any message answers is below this, a recall returns nothing; 0: it is never "
        "empty for this reason ([ADR 59](adr/0059-relevance-threshold.md))",
    )

    # Agents over MCP

    mcp_all_tools = boolean(
        "1: MCP lists all tools, not only the four for agents; those that it does not list answer, too", default=False
    )
    mcp_marking = boolean(
        "1: agents get a tool that marks turns wrong or outdated, over MCP and as `POST /api/v1/tools/mark_turn`; it "
        "takes a key that may write ([ADR 99](adr/0099-marked-turns.md))",
        default=False,
    )
    mcp_oauth = boolean(
        "1: agents may ask for access by OAuth: a person who is signed in agrees on a page, and the agent gets a key "
        "that only reads, which the page of keys lists and revokes ([ADR 92](adr/0092-oauth-by-the-mcp-sdk.md)); "
        "needs an address that begins with https:// or is of this machine",
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
        "the most days for which a shared link works, also one that was made before; 0: for ever, if its owner chose "
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

    # Model for chat and summaries

    chat_base_url = address("", "the OpenAI-compatible endpoint for chat, summaries and the capture proxy")
    chat_api_key = secret("the key for `CHAT_BASE_URL`")
    chat_model = text("", "the name of the model at `CHAT_BASE_URL`")
    chat_context_window = whole(
        32_768, 1024, 20_000_000, "the most tokens that `CHAT_MODEL` reads and writes at a time"
    )
    chat_timeout_s = seconds(120.0, "seconds for which `CHAT_BASE_URL` may be silent")
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
        "tokens a month that each person, and each space, may use of the server's own model, unless they or their "
        "groups have a [quota](#quotas); 0: no limit",
    )
    chat_lease_s = whole(
        30,
        2,
        3600,
        "seconds after which the unfinished reply of a process that died is stored, and its conversation continues",
    )
    summary_max_tokens = whole(800, 100, 100_000, "the most tokens of a summary")
    context_threshold = share(0.8, "share of the model's window above which what it gets is shortened")
    context_sliding_messages = whole(
        40, 1, 1_000_000, "number of messages that an agent with the strategy `sliding_window` keeps"
    )
    context_tool_output_tokens = whole(
        300, 10, 1_000_000, "tokens to which the strategy `tool_output_trim` cuts each tool output"
    )
    context_resurrection_tokens = whole(
        1500, 50, 1_000_000, "the most tokens of earlier messages that the strategy `resurrection` brings back"
    )

    # Sizes of requests

    max_upload_mb = whole(512, 1, 1_048_576, "the largest upload of files to import, in MB")
    max_stored_mb_per_user = whole(
        20_480,
        0,
        100_000_000,
        "how many MB a person may store in all, in their own archive and in spaces, and how many a space may, unless "
        "they or their groups have a [quota](#quotas); 0: any number",
    )
    max_turns_per_user = whole(
        0,
        0,
        1_000_000_000_000,
        "how many turns a person, and a space, may store, unless they or their groups have a [quota](#quotas); 0: any "
        "number",
    )
    max_documents_per_user = whole(
        0,
        0,
        1_000_000_000_000,
        "how many documents a person, and a space, may store, unless they or their groups have a [quota](#quotas); 0: "
        "any number",
    )
    quota_contact = text(
        "",
        "whom a refusal tells people to ask for more, such as `it@example.org`",
        shown="the people who run this server",
    )
    max_request_mb = whole(8, 1, 1024, "the largest request of a signed-in user that is no upload, in MB")
    max_anonymous_request_kb = whole(1024, 16, 1_048_576, "the largest request without a valid key or session, in KB")
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
        f"seconds for which `{COMMAND} web` continues after SIGTERM: `/ready` answers 503 at once, connections are "
        "accepted for a third of it, and replies have until its end, at least 5 s "
        "([deployment.md](deployment.md#rolling-restarts))",
    )
    request_idle_s = seconds(20.0, "seconds for which a client may be silent while it sends a request")
    request_min_bytes_per_s = whole(
        4096,
        1,
        1_000_000_000,
        "the least bytes a second with which a request must arrive once `REQUEST_IDLE_S` have passed",
    )

    # Backups

    backup_folder = backup_place(
        f"where `{COMMAND} up` writes backups of the embedded database: a folder, better on another disk, or "
        "`s3://BUCKET/PREFIX` ([operation.md](operation.md)); off: nowhere"
    )
    backup_every_h = whole(24, 1, 8_760, f"hours from one backup of `{COMMAND} up` to the next")
    backup_keep = kept_backups(f"how many backups of `{COMMAND} up` are kept; older ones are deleted")

    # Imports

    import_timeout_s = whole(
        1800,
        10,
        86_400,
        "seconds that one import may take, 10 to 86,400 ([ADR 21](adr/0021-imports-in-a-child-process.md))",
    )
    import_memory_mb = whole(1024, 256, 1_048_576, "the most memory of one import in MB, at least 256")
    samples = boolean(
        f"1: the first start of `{COMMAND} up` on a new database loads sample conversations, as `make run` does; "
        f"`{COMMAND} samples --user admin --remove` takes them out",
        default=False,
    )
    hide_keys = boolean(
        "1: replace keys, tokens and passwords in imported conversations, chats and documents by placeholders; those "
        "of conversations are kept, encrypted ([ADR 36](adr/0036-replace-secrets-before-storing.md)); 0: store "
        "texts unchanged",
        default=True,
    )
    archive_automated = boolean(
        "1: archive sessions that programs started (observers, runs through an SDK) when they are imported, so that "
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
        "MB of disk space for the kept uploads of each archive, which can be read again: the oldest are deleted "
        "first; 0: keep none ([ADR 47](adr/0047-keep-uploads-for-reimport.md))",
    )
    media_root = folder_in_var(
        "media",
        "the folder for the files of documents, pictures of their pages and kept uploads; on several machines a "
        "folder that all of them share",
    )

    # Documents

    max_document_mb = whole(100, 1, 100_000, "the largest document, in MB")
    trash_days = whole(
        30,
        0,
        3650,
        "how many days deleted conversations and documents stay in the trash, from which their owners can put them "
        "back; 0: deleting is for good ([ADR 104](adr/0104-trash.md))",
    )
    max_library_mb = whole(2048, 1, 100_000_000, "the most MB of all documents of one archive, also of a space")
    max_page_pictures_mb = whole(
        512,
        16,
        100_000_000,
        "MB of disk space for pictures of pages of each archive, at least 16: those not opened for longest are deleted "
        "first, and drawn again when the page is opened ([ADR 30](adr/0030-converters-in-a-confined-process.md))",
    )
    max_document_pages = whole(10_000, 1, 1_000_000, "how many pages a document may have")
    max_document_chars = whole(20_000_000, 10_000, 1_000_000_000, "how many characters a document may have")
    document_timeout_s = whole(
        300,
        5,
        3600,
        "seconds that converting one document may take, from 5 to a minute less than `TASK_TIMEOUT_S` ([ADR "
        "30](adr/0030-converters-in-a-confined-process.md))",
    )
    document_memory_mb = whole(768, 256, 1_048_576, "the most memory of converting one document in MB, at least 256")
    document_stall_s = whole(
        20,
        1,
        3600,
        "seconds of processor time without progress after which reading or drawing a document is ended: 1 to 3600; "
        "raise it on slow machines",
    )
    document_ocr = boolean(
        "1: recognise the text of scanned pages with tesseract, which must be installed", default=False
    )
    rag_enabled = boolean(
        "1: documents are found by meaning, too; 0: by their words alone ([ADR "
        "31](adr/0031-one-space-for-documents-and-turns.md))",
        default=True,
    )

    # Observation and pages

    log_level = choice(
        "INFO",
        LEVELS,
        "the least severity that is logged: `DEBUG`, `INFO`, `WARNING`, `ERROR` or `CRITICAL`",
        ignore_case=True,
    )
    log_format = choice("plain", FORMATS, "the format of the log: `plain`, or `json` for one JSON object a line")
    sentry_dsn = secret_address(
        "a Sentry project that errors are sent to, without texts of people "
        "([observability.md](observability.md#traces-and-errors))",
    )
    otel_exporter_otlp_endpoint = address(
        "",
        "a collector of OpenTelemetry that spans are sent to by HTTP, such as `http://collector:4318`; the other "
        "`OTEL_` variables of its exporter work, too",
    )
    metrics = boolean("1: serve `/metrics` for Prometheus", default=False)
    metrics_token = secret("the bearer token that `/metrics` asks for")
    measures_flush_s = seconds(10.0, "seconds from one time that a process stores what it measured to the next")
    time_zone = zone("UTC", "the time zone of dates on pages and in queries", variable="TZ")
    debug = boolean("1: error pages show code; never use it on a server that others can reach", default=False)

    # Computed in `convmemory.settings`, or Django's own

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
    for declaring in (ServerSettings, Config):
        yield from (each for each in vars(declaring).values() if isinstance(each, Setting))


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
