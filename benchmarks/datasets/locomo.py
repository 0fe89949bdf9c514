"""Reads LoCoMo: long conversations of two people in dated sessions, questions labelled with messages.

Each sample is a haystack, each session a conversation, speaker_a the user and speaker_b the assistant. Questions of
category 5 have no answer: they ask one speaker about a statement of the other. Source: snap-research/LoCoMo,
`locomo10.json`.
"""

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.datasets.haystacks import SOURCE, Haystack, Question, moment, read_json
from convmemory.conversations.messages.drafts import ConversationDraft, MessageDraft
from convmemory.conversations.messages.parts import TextPart

# The numbers are those of LoCoMo's files.
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single-hop"}
# Nothing in the conversation answers these questions.
ADVERSARIAL = {5: "adversarial"}
DATE_FORMAT = "%I:%M %p on %d %B, %Y"
_SESSION = re.compile(r"session_\d+")
_DIALOG_ID = re.compile(r"D(\d+):\d+")


def read(path: Path) -> Iterator[Haystack]:
    """Yield one haystack per sample. Raises: InvalidInput."""
    for sample in read_json(path):
        name = str(sample["sample_id"])
        drafts = partial(_drafts, name, sample["conversation"])
        yield Haystack(name, drafts, _questions(name, sample, CATEGORIES), _questions(name, sample, ADVERSARIAL))


def _questions(name: str, sample: Mapping[str, Any], categories: Mapping[int, str]) -> tuple[Question, ...]:
    asked = [entry for entry in sample["qa"] if entry.get("category") in categories]
    return tuple(_question(name, entry, categories[entry["category"]]) for entry in asked)


def _question(name: str, entry: Mapping[str, Any], category: str) -> Question:
    matches = [match for text in entry.get("evidence", []) for match in _DIALOG_ID.finditer(text)]
    return Question(
        text=entry["question"],
        category=category,
        fold=name,
        messages=frozenset((f"{name}/{match[1]}", match[0]) for match in matches),
    )


def _drafts(name: str, conversation: Mapping[str, Any]) -> Iterator[ConversationDraft]:
    numbers = [int(key.removeprefix("session_")) for key in conversation if _SESSION.fullmatch(key)]
    for number in sorted(numbers):
        messages = conversation[f"session_{number}"]
        if not messages:
            continue
        when = moment(conversation[f"session_{number}_date_time"], DATE_FORMAT)
        drafts = []
        for message in messages:
            caption = message.get("blip_caption")
            drafts.append(
                MessageDraft(
                    role="user" if message["speaker"] == conversation["speaker_a"] else "assistant",
                    parts=(TextPart(f"{message['text']} [image: {caption}]" if caption else str(message["text"])),),
                    name=message["speaker"],
                    created_at=when,
                    source_key=message["dia_id"],
                )
            )
        yield ConversationDraft(
            drafts, source=SOURCE, source_id=f"{name}/{number}", title=f"Session {number}", created_at=when
        )
