"""Docstrings, comments and documents name only what exists: files, functions, commands, options, settings, routes."""

import re
from argparse import ArgumentParser
from collections.abc import Callable, Iterator
from functools import cache

import pytest
from django.apps import apps
from django.core.management import load_command_class
from django.urls import Resolver404, resolve

from convmemory.core.config import declared
from tests.support.commands import all_commands
from tests.support.prose import (
    ROOT,
    Prose,
    all_prose,
    documents,
    path_tails,
    project_files,
    text_of_code,
    text_of_tests,
    words_of_code,
    words_of_tests,
)

FOREIGN_FILES = {
    ".vscode/mcp.json", "1_Pooling/config.json", "agent.py", "aider/io.py", "backend/open_webui/models/chats.py",
    "backend/open_webui/utils/middleware.py", "a.py", "claude_desktop_config.json", "data/locomo10.json",
    "examples/hybrid_search/rrf.py", "longmemeval_s.json", "longmemeval_s_cleaned.json",
    "modules.json", "probing_questions/probing_questions.json", "session_store.py", "store.py",
}  # fmt: skip
"""Files of other programs, and of examples."""
MADE_FILES = re.compile(r"benchmarks/results/\w+-SET\.json|deploy/(?:secrets(?:/\w+)?|web)")
"""Files that running the program makes, and a deployment of Kubernetes that looks like a path."""
FOREIGN_WORDS = {
    "chatModel", "chatRecordingService", "django_q", "encode_document", "encode_query", "limit_conn", "limit_req",
    "max_slot_wal_keep_size", "nohup", "objectMutationLog", "OPENAI_API_KEY", "pg_basebackup",
    "rollout_lineage", "setprofile", "sys", "tmp_path", "transformedContent", "useExportConversation", "wal_level",
}  # fmt: skip
"""Names of other programs."""
PATTERNS_OF_NAMES = re.compile(
    r"CAP_\w+|NAME_FILE|PREFIX_\w+|SECURE_|RLIMIT_AS|(?:SUPERVISOR|WEB)_PID|_(?:items|failures)_total"
)
"""Names with a part that varies, and placeholders."""
METRICS = re.compile(r"convmemory_(\w+?)_(?:duration_seconds|items_total|failures_total)")
FOREIGN_OPTIONS = {"--hypothesis-profile", "--reuse-db"}
ROOTS = ("benchmarks", "convmemory", "memory", "search", "summaries", "tests")
FOREIGN_DOTTED = re.compile(r"convmemory\.(?:dump|internal)|memory\.example\.org|messages\.jsonl\.gz|mcp\.client\.\w+")
FOREIGN_ROUTES = {"/data", "/rerank", "POST /chat/completions", "POST /embeddings"}
EXAMPLES = {"{id}": "1", "{n}": "1", "{name}": "search", "N": "1"}

PATH = re.compile(
    r"(?<![\w./*{<:~-])((?:[\w.-]+/)*[\w-]+\.(?:py|md|sql|html|css|js|toml|lock|yaml|json|txt))\b(?![\w/])"
)
FOLDER = re.compile(
    r"(?<![\w./*{<:~-])"
    r"((?:convmemory|search|memory|summaries|tests|docs|benchmarks|deploy|static|templates)(?:/[\w.-]+)+)(?![\w<])"
)
NAME = re.compile(r"`([A-Za-z_][\w.]*)(?:\([^`]*\))?`")
NAME_IN_FILE = re.compile(r"`([A-Za-z_]\w*)(?:\(\))?` (?:in|of|from) `([\w/]+\.py)`")
FILE_WITH_NAME = re.compile(r"^\| `([\w/]+\.py)` \| `([A-Za-z_]\w*)`:", re.MULTILINE)
DOTTED = re.compile(r"(?<![\w./@-])([a-z_]\w*(?:\.\w+)+)(?![\w/@-])")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
TARGET = re.compile(r"(?:`|^|\$ )make ([a-z-]+)", re.MULTILINE)
COMMAND = re.compile(r"manage\.py ([a-z_]+)([^\n`;#]*)")
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")
BARE_OPTION = re.compile(r"`(--[a-z][\w-]*)[^`]*`")
VARIABLE = re.compile(r"\b([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)\b")
ROUTE = re.compile(r"`((?:(?:GET|POST|PUT|PATCH|DELETE|HEAD) )?/[^`\s]*)`")


def unknown_paths(prose: Prose) -> Iterator[str]:
    for path in PATH.findall(prose.text):
        is_named_by_code = path.endswith((".json", ".txt")) and is_in_code(path)
        is_known = path in path_tails() or path in FOREIGN_FILES or MADE_FILES.fullmatch(path)
        if not is_known and not is_named_by_code:
            yield path
    for folder in FOLDER.findall(prose.text):
        if folder.rstrip(".") not in path_tails() and not MADE_FILES.fullmatch(folder) and "." not in folder:
            yield folder


def unknown_names(prose: Prose) -> Iterator[str]:
    for name in NAME.findall(prose.text):
        is_file = name in path_tails() or name in FOREIGN_FILES
        if is_file or METRICS.fullmatch(name) or PATTERNS_OF_NAMES.match(name) or is_permission(name) or is_table(name):
            continue
        if not all(is_word(part, prose.place) for part in name.split(".") if part):
            yield name


def is_word(name: str, place: str) -> bool:
    """Return True for a name that the code contains; code of tests counts only for tests and documents."""
    is_in_program = name in words_of_code() or name in FOREIGN_WORDS or name in settings()
    return is_in_program or (place.startswith(("tests/", "docs/", "CONTRIBUTING")) and name in words_of_tests())


@cache
def settings() -> frozenset[str]:
    """Return the variables of the environment, and the names under which code and tests know them."""
    return frozenset(name for each in declared() for name in (each.variable, each.name))


def is_table(name: str) -> bool:
    return name in {model._meta.db_table for model in apps.get_models()}


def is_in_code(text: str) -> bool:
    return text in text_of_code() or text in text_of_tests()


def is_permission(name: str) -> bool:
    """Return True for a permission of the admin such as `search.change_source`."""
    app, _, permission = name.partition(".")
    action, _, model = permission.partition("_")
    is_one = action in ("add", "change", "delete", "view") and app in {each.label for each in apps.get_app_configs()}
    return is_one and model in apps.all_models[app]


def misplaced_names(prose: Prose) -> Iterator[str]:
    pairs = NAME_IN_FILE.findall(prose.text) + [(name, file) for file, name in FILE_WITH_NAME.findall(prose.text)]
    for name, file in pairs:
        homes = [each for each in project_files() if each == file or each.endswith(f"/{file}")]
        defined = re.compile(rf"(?:class|def) {name}\b|^\s*{name}(?:: [^=]+)? =", re.MULTILINE)
        if not any(defined.search((ROOT / home).read_text(encoding="utf-8")) for home in homes):
            yield f"{name} in {file}"


@cache
def words_by_module() -> dict[str, list[frozenset[str]]]:
    """Return the words of all modules that have a name, by this name."""
    words: dict[str, list[frozenset[str]]] = {}
    for file in project_files():
        if file.endswith(".py"):
            parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
            names = {parts[-1], ".".join(parts)} if parts[0] in ROOTS else {".".join(parts)}
            found = frozenset(re.findall(r"\w+", (ROOT / file).read_text(encoding="utf-8")))
            for name in names:
                words.setdefault(name, []).append(found)
    return words


def unknown_dotted(prose: Prose) -> Iterator[str]:
    modules = words_by_module()
    for name in DOTTED.findall(FENCED.sub("", prose.text)):
        parts = name.split(".")
        if parts[0] not in modules or name in modules or is_permission(name) or name in path_tails():
            continue
        if FOREIGN_DOTTED.fullmatch(name):
            continue
        longest = max(count for count in range(1, len(parts)) if ".".join(parts[:count]) in modules)
        homes = modules[".".join(parts[:longest])]
        if not any(parts[longest] in home for home in homes) and f'"{name}' not in code_with_quotes():
            yield name


@cache
def code_with_quotes() -> str:
    files = [file for file in project_files() if file.endswith(".py")]
    return "\n".join((ROOT / file).read_text(encoding="utf-8") for file in files)


def unknown_targets(prose: Prose) -> Iterator[str]:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    yield from (target for target in TARGET.findall(prose.text) if target not in targets)


@cache
def options_of(command: str) -> frozenset[str]:
    """Return the options of a command, with those of its subcommands."""
    made = load_command_class(all_commands()[command], command)
    return frozenset(_options(made.create_parser("manage.py", command)))


def _options(parser: ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action.choices, dict):
            for inner in action.choices.values():
                yield from _options(inner)


def unknown_commands(prose: Prose) -> Iterator[str]:
    for command, rest in COMMAND.findall(prose.text):
        if command not in all_commands():
            yield command
        else:
            yield from (f"{command} {option}" for option in OPTION.findall(rest) if option not in options_of(command))
    for option in BARE_OPTION.findall(prose.text):
        if not is_in_code(option) and option not in FOREIGN_OPTIONS:
            yield option


def unknown_variables(prose: Prose) -> Iterator[str]:
    for name in VARIABLE.findall(prose.text):
        if not is_word(name, prose.place) and not PATTERNS_OF_NAMES.match(name):
            yield name


def unknown_routes(prose: Prose) -> Iterator[str]:
    for route in ROUTE.findall(prose.text):
        path = route.rpartition(" ")[2].partition("?")[0]
        for placeholder, example in EXAMPLES.items():
            path = path.replace(placeholder, example)
        if route not in FOREIGN_ROUTES and not any(is_route(start + path) for start in ("", "/api/v1")):
            yield route


def is_route(path: str) -> bool:
    if any(f'"{form}"' in text_of_code() for form in (path, f"{path[1:]}/")):  # answered before Django, and prefixes
        return True
    try:
        resolve(path)
    except Resolver404:
        return False
    return True


@pytest.mark.parametrize(
    "unknown",
    [
        unknown_paths, unknown_names, misplaced_names, unknown_dotted, unknown_targets, unknown_commands,
        unknown_variables, unknown_routes,
    ],
)  # fmt: skip
def test_everything_that_prose_names_exists(unknown: Callable[[Prose], Iterator[str]]) -> None:
    found = [(prose.place, name) for prose in all_prose() for name in unknown(prose)]
    assert found == []


@pytest.mark.parametrize(
    ("unknown", "text"),
    [
        (unknown_paths, "see `search/no_such_file.py`"),
        (unknown_paths, "see search/no_such_folder for it"),
        (unknown_names, "calls `no_such_function()`"),
        (misplaced_names, "name it in `Rankers`, `Rankers` in `search/tasks.py`"),
        (unknown_dotted, "as `search.pipeline.no_such_name`"),
        (unknown_targets, "run `make no-such-target`"),
        (unknown_commands, "run `manage.py no_such_command`"),
        (unknown_commands, "run `manage.py doctor --no-such-option`"),
        (unknown_variables, "set NO_SUCH_VARIABLE" + "_AT_ALL"),
        (unknown_routes, "call `GET /api/v1/no/such/route`"),
    ],
)
def test_missing_name_is_found(unknown: Callable[[Prose], Iterator[str]], text: str) -> None:
    assert list(unknown(Prose("docs/example.md", text))) != []


def test_documents_are_read() -> None:
    assert {"README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/settings.md"} <= set(documents())
    assert len(all_prose()) > 5_000
