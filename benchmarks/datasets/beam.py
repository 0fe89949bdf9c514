"""BEAM: very long chats in batches, with probing questions for ten abilities.

Each chat folder (`chat.json` and `probing_questions/probing_questions.json`) is a haystack, each batch a conversation;
`path` is such a folder or a folder of them. The evidence is the messages in `source_chat_ids`; questions without any,
or with an id that several messages share, are left out, and so are those of abstention. Source:
mohammadtavakoli78/BEAM, `chats/100K` and its like.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.haystacks import Haystack, MessageRef, Question, chat, moment, read_json
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.core.errors import InvalidInput

QUESTIONS = Path("probing_questions") / "probing_questions.json"
DATE_FORMATS = ("%B-%d-%Y", "%B %d, %Y", "%Y-%m-%d")
_PLAN_MARK = re.compile(r"->->[\d,\s]++$")  # the generator leaves it in user messages

Messages = list[dict[str, Any]]


def read(path: Path) -> Iterator[Haystack]:
    """Yield one haystack per chat. Raises: InvalidInput."""
    folders = [path] if (path / "chat.json").is_file() else [file.parent for file in path.glob("*/chat.json")]
    if not folders:
        raise InvalidInput(f"{path} holds no chat: give a folder with chat.json, or one with such folders in it.")
    for folder in sorted(folders, key=lambda folder: (len(folder.name), folder.name)):
        batches = list(_batches(read_json(folder / "chat.json")))
        # The place of the message with each id; ids that several messages share are left out.
        counts = Counter(message["id"] for messages in batches for message in messages)
        homes = {
            message["id"]: (f"{folder.name}/{number}", str(position))
            for number, messages in enumerate(batches)
            for position, message in enumerate(messages)
            if counts[message["id"]] == 1
        }
        asked = read_json(folder / QUESTIONS)
        questions = (
            _question(folder.name, ability, entry, homes) for ability, entries in asked.items() for entry in entries
        )
        answerable = tuple(question for question in questions if question.messages)
        yield Haystack(folder.name, partial(_drafts, folder.name, batches), answerable)


def _batches(chat: Any) -> Iterator[Messages]:
    """Yield the messages of each batch; the longest chats nest their batches in plans."""
    if isinstance(chat, Mapping) and "turns" in chat:
        yield [message for turn in chat["turns"] for message in turn]
    elif isinstance(chat, Mapping):
        for value in chat.values():
            yield from _batches(value)
    elif isinstance(chat, Sequence) and not isinstance(chat, str):
        for value in chat:
            yield from _batches(value)


def _question(name: str, ability: str, entry: Mapping[str, Any], homes: Mapping[int, MessageRef]) -> Question:
    ids = set(_flat(entry.get("source_chat_ids")))
    has_answer = ids <= homes.keys() and ability != "abstention"
    messages = frozenset(homes[number] for number in ids) if has_answer else frozenset()
    return Question(text=entry["question"], category=ability, fold=name, messages=messages)


def _flat(value: Any) -> Iterator[int]:
    """Yield the ids in a number, a list or a dictionary of lists."""
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _flat(item)
    elif isinstance(value, list):
        for item in value:
            yield from _flat(item)


def _drafts(name: str, batches: Sequence[Messages]) -> Iterator[ConversationDraft]:
    for number, messages in enumerate(batches):
        anchor = next((message["time_anchor"] for message in messages if message.get("time_anchor")), "")
        texts = ((message["role"], _without_plan_mark(message["content"])) for message in messages)
        when = moment(anchor, *DATE_FORMATS)
        yield chat(texts, source_id=f"{name}/{number}", title=f"Batch {number + 1}", created_at=when)


def _without_plan_mark(text: str) -> str:
    mark = _PLAN_MARK.search(text)
    return text[: mark.start()].rstrip() if mark else text
