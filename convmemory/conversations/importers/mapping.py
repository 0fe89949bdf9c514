"""Unknown JSON and CSV: a mapping of places to conversations and messages, proposed from the content, or read.

A mapping is a declared format as a JSON object, so that it can be changed, kept, shared, and one day declared. Nothing
is stored before its owner has seen a preview.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from convmemory.conversations.importers.base import CSV, Checked, FileReport, Source
from convmemory.conversations.importers.declaration import Declaration
from convmemory.conversations.importers.declared import DeclaredImporter, csv_sample
from convmemory.conversations.importers.declared_content import ROLES_IMPLIED, is_message, known_role
from convmemory.conversations.importers.detect import FORMATS
from convmemory.conversations.importers.json_arrays import column_json, load_json
from convmemory.conversations.importers.lines import read_objects
from convmemory.conversations.importers.places import first, values_at
from convmemory.conversations.importers.values import mapping_of, text_of
from convmemory.conversations.messages.parts import spoken_text
from convmemory.core.errors import InvalidInput
from convmemory.core.text import cut

MAX_LIST_DEPTH = 12
MAX_MEMBER_DEPTH = 3  # of paths in a message
MAX_LISTS = 2_000  # looked at for messages
MAX_SAMPLE = 40  # messages of a list
MAX_SAMPLED_LINES = 200
MAX_PREVIEWED = 100_000  # messages
PREVIEW_CHARS = 120
MAX_SHOWN_MEMBERS = 30

_PLACES = frozenset(
    {"at", "messages", "group", "id", "title", "created", "project", "key", "parent", "role", "text", "thinking"}
    | {"time", "model", "speaker", "files", "calls"}
)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_CONVERSATION = re.compile(
    r"(?:conversation|session|thread|chat|dialog(?:ue)?|topic|room|channel)_?(?:id|uuid|key)"
    r"|conversation|session|thread|dialog(?:ue)?|room|channel",
    re.IGNORECASE,
)
_TITLES = ("title", "name", "topic", "subject", "heading", "summary", "label")
_IDS = (
    *("id", "uuid", "_id", "key", "conversation_id", "conversationId", "session_id", "sessionId", "thread_id"),
    "chatId",
)
_TIMES = re.compile(r"(?:created?|sent|inserted|updated)?_?-?(?:at|time|date|timestamp|ts|when|on)", re.IGNORECASE)
_MODELS = ("model", "model_name", "modelName", "model_id", "engine")


@dataclass(frozen=True, slots=True)
class Preview:
    """What a mapping finds in a file."""

    conversations: int
    messages: int
    first_question: str
    issues: int

    def __str__(self) -> str:
        question = f"; first question: “{self.first_question}”" if self.first_question else ""
        left_out = f"; {self.issues:,} entries could not be read" if self.issues else ""
        return f"{self.conversations:,} conversations, {self.messages:,} messages{question}{left_out}"


def proposed_mapping(path: Path) -> dict[str, Any] | None:
    """Return a mapping for the JSON or CSV of the file, None if no messages were found in it. Raises: InvalidInput."""
    best: tuple[int, dict[str, Any]] | None = None
    # The document, or the first lines of JSON lines or CSV as a list.
    source = Source(path)
    lines = source.head_objects
    if source.plain_name.endswith(CSV):
        sampled = csv_sample(path, MAX_SAMPLED_LINES)
    elif len(lines) > 1 or path.name.lower().endswith(("jsonl", "ndjson")):
        sampled = [item.value for item in islice(read_objects(path), MAX_SAMPLED_LINES)]
    else:
        sampled = load_json(path)
    for steps, messages in islice(_lists(sampled), MAX_LISTS):
        mapping = _mapping_of(steps, messages)
        if mapping and (best is None or len(messages) > best[0]):
            best = (len(messages), mapping)
    return best[1] if best else None


def read_mapping(path: Path) -> DeclaredImporter:
    """Return the importer of the mapping in the file. Raises: InvalidInput that names the field."""
    value = load_json(path)
    if not isinstance(value, Mapping):
        raise InvalidInput(f"{path.name} holds no mapping: write an object such as the one that --preview prints.")
    return importer_of(value)


def importer_of(mapping: Mapping[str, Any]) -> DeclaredImporter:
    """Return the importer that reads by the mapping. Raises: InvalidInput that names the field."""
    fields: dict[str, Any] = {}
    for name, value in mapping.items():
        if name in _PLACES:
            listed = [value] if isinstance(value, str) else value
            if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
                raise InvalidInput(f'`{name}` of the mapping is a place, such as "a.b", or a list of places.')
            fields[name] = tuple(listed)
        elif name == "roles":
            if not isinstance(value, Mapping) or not all(role in ROLES_IMPLIED for role in value.values()):
                roles = ", ".join(role for role in ROLES_IMPLIED if role)
                raise InvalidInput(f'`roles` of the mapping gives each name one of {roles}, or "" for none.')
            fields[name] = {str(key).lower(): role for key, role in value.items()}
        elif (name == "entries" and value in ("conversations", "messages")) or (
            name == "name" and isinstance(value, str) and _NAME.fullmatch(value) is not None
        ):
            fields[name] = value
        else:
            known_fields = ", ".join(sorted({*_PLACES, "entries", "name", "roles"}))
            raise InvalidInput(
                f"`{name[:40]}` of the mapping is not known, or has no value it can have: {known_fields}."
            )
    name = fields.pop("name", "mapped")
    if name in FORMATS:
        raise InvalidInput(f"`name` of the mapping is that of a known format, {name}: give the program another one.")
    declaration = Declaration(
        **{"files": (), **fields},
        name=name,
        checked=Checked(name, "1"),
        against="file",
        export="A mapping.",
    )
    return DeclaredImporter(declaration)


def preview(importer: DeclaredImporter, path: Path) -> Preview:
    """Return what the importer reads of the file, without storing anything. Raises: InvalidInput, TooLarge."""
    report = FileReport(path=path.name)
    conversations = messages = 0
    question = ""
    for draft in importer.parse(Source(path), report):
        conversations += 1
        for message in draft.messages:
            messages += 1
            if not question and message.role == "user" and not message.superseded:
                question = " ".join(spoken_text(message.parts).split())[:PREVIEW_CHARS]
            if messages >= MAX_PREVIEWED:
                break
        if messages >= MAX_PREVIEWED:
            break
    return Preview(conversations, messages, question, report.skipped)


def proposal(path: Path, mapping: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
    """Return a mapping, by default one that is proposed for the file, with what it finds; None if that is nothing.

    Raises: InvalidInput, TooLarge.
    """
    mapping = proposed_mapping(path) if mapping is None else mapping
    if mapping is None:
        return None
    importer = importer_of(mapping)
    # The names in the first message that the importer reads, each with the beginning of its value.
    drafts = importer.parse(Source(path), FileReport(path=path.name))
    raw = next((message.raw for draft in drafts for message in draft.messages), b"")
    members = _members(mapping_of(column_json(raw.decode("utf-8", "replace"))))
    values = ((name, " ".join(str(value).split())) for name, value in members if not isinstance(value, Mapping))
    sample = [(name, cut(value, PREVIEW_CHARS)) for name, value in islice(values, MAX_SHOWN_MEMBERS)]
    return {"mapping": dict(mapping), **asdict(preview(importer, path)), "sample": sample}


def _lists(value: Any) -> Iterator[tuple[tuple[str, ...], list[Mapping[str, Any]]]]:
    """Yield lists of objects at any depth with the names that lead to them; items of lists are `*`."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    lists: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    looked = 0
    while waiting and looked < MAX_LISTS * MAX_SAMPLE:
        steps, node = waiting.pop()
        looked += 1
        listed = node if isinstance(node, list) else list(node.values()) if isinstance(node, Mapping) else []
        objects = [item for item in listed if isinstance(item, Mapping)]
        is_keyed = isinstance(node, Mapping) and len(objects) == len(listed) > 0
        if objects and (isinstance(node, list) or is_keyed):
            list_steps = (*steps, "*") if is_keyed else steps
            lists.setdefault(list_steps, []).extend(objects[:MAX_SAMPLE])
        if len(steps) >= MAX_LIST_DEPTH:
            continue
        if isinstance(node, Mapping):
            step = ("*",) if is_keyed and len(node) > 1 else ()
            waiting.extend(((*steps, *(step or (name,))), item) for name, item in islice(node.items(), MAX_SAMPLE))
        elif isinstance(node, list):
            waiting.extend(((*steps, "[]"), item) for item in node[:MAX_SAMPLE])
    yield from lists.items()


def _mapping_of(steps: tuple[str, ...], messages: list[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return a mapping if the objects are messages: with a speaker of two or more, and a text."""
    sample = messages[:MAX_SAMPLE]
    # The path of the speaker and the roles of names that are not known; "" without one.
    role, best_roles, best_known = "", dict[str, str](), -1
    for candidate in (path for path, value in _members(sample[0]) if isinstance(value, str | bool)):
        values = [str(first(item, (candidate,))).strip() for item in sample if first(item, (candidate,)) is not None]
        names = list(dict.fromkeys(values))
        if not 2 <= len(names) <= 4 or len(values) < len(sample) * 0.8 or max(map(len, names)) > 40:
            continue
        known_names = [name for name in names if known_role(name)]
        unknown = [name for name in names if not known_role(name)]
        spoken = {known_role(name) for name in known_names}
        if "user" in spoken and "assistant" not in spoken and not unknown:
            continue
        if len(known_names) > best_known and (known_names or len(names) == 2):
            open_roles = [role for role in ("user", "assistant") if role not in spoken]
            roles = dict(zip(unknown, [*open_roles, *["system"] * len(unknown)], strict=False))
            role, best_roles, best_known = (
                candidate,
                {name.lower(): role for name, role in roles.items()},
                len(known_names),
            )
    roles = best_roles
    text = _text_path(sample, role)
    if not role or not text:
        return None
    mapping: dict[str, Any] = {"name": "mapped", "role": role, "text": text}
    if roles:
        mapping["roles"] = roles
    if time := next((name for name in sample[0] if _TIMES.fullmatch(name)), ""):
        mapping["time"] = time
    if model := next((name for name in _MODELS if any(text_of(item.get(name)) for item in sample)), ""):
        mapping["model"] = model
    # Where the conversations lie, whose messages lie at these steps.
    if "[]" in steps or steps.count("*") > 1 or (steps.count("*") == 1 and steps[-1] != "*"):
        # The messages of each conversation in a list, or under keys.
        at = max(index for index, step in enumerate(steps[:-1]) if step in ("[]", "*"))
        outer = [step for step in steps[:at] if step != "[]"]
        if steps[at] == "*":
            outer.append("*")
        where = {
            "at": ".".join(outer),
            "messages": ".".join(step for step in steps[at + 1 :] if step != "*"),
            "id": list(_IDS),
            "title": list(_TITLES),
        }
    else:
        named = (
            name for name, value in sample[0].items() if _CONVERSATION.fullmatch(name) and isinstance(value, str | int)
        )
        group = next(named, "")
        flat: dict[str, Any] = {"at": ".".join(steps), "entries": "messages", "id": []}
        where = {**flat, "group": group} if group else flat
    mapping.update(where)
    importer = importer_of(mapping)
    readable = sum(is_message(importer.declaration, item) for item in sample)
    return mapping if readable * 2 > len(sample) else None


def _members(value: Mapping[str, Any], depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object and of those in it with their paths, the nearest first."""
    yield from value.items()
    for name, inner in value.items() if depth < MAX_MEMBER_DEPTH else ():
        if isinstance(inner, Mapping):
            yield from ((f"{name}.{path}", member) for path, member in _members(inner, depth + 1))


def _text_path(sample: list[Mapping[str, Any]], role: str) -> str:
    """Return the path with the most text."""
    lengths: Counter[str] = Counter()
    for item in sample:
        for path, text in _members(item):
            if path != role and isinstance(text, str | list):
                lengths[path] += len(text) if isinstance(text, str) else len(json.dumps(text, default=str)) // 2
    for path, _ in lengths.most_common():
        if any(" " in str(text) for text in values_at(sample, f"*.{path}")):
            return path
    return ""


def as_json(mapping: Mapping[str, Any]) -> str:
    """Return the mapping as it is kept in a file."""
    return json.dumps(mapping_of(mapping), ensure_ascii=False, indent=2)
