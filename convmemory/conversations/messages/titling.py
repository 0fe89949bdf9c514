"""The titles of conversations: those of their sources, else their first question that says something.

The owner's own title is never replaced.
"""

from django.db import transaction

from convmemory.conversations.messages.drafts import TITLE_CHARS
from convmemory.conversations.messages.hidden_keys import text_without_keys
from convmemory.conversations.messages.parts import spoken_text
from convmemory.conversations.models import OWN_TITLE, TITLE_VERSION, Conversation
from convmemory.conversations.signals import conversation_changed
from convmemory.core.text import one_line, storable
from convmemory.core.titles import CANDIDATES, plain_title, says_something, title_from

SOURCE_TITLE_CHARS = 300


def title_of(*questions: str) -> str:
    """Return the title of a conversation that begins with these questions."""
    return title_from((storable(text_without_keys(question)) for question in questions), TITLE_CHARS)


def title_of_source(title: str, source: str) -> str:
    """Return the title as a source gives it; "" if it says nothing. A program's own title is kept as it is."""
    title = text_without_keys(title)
    if source == "api":
        return one_line(title, SOURCE_TITLE_CHARS)
    return plain_title(title, SOURCE_TITLE_CHARS) if says_something(title) else ""


def choose_title(conversation: Conversation) -> str:
    """Return the title of a locked conversation, from its first questions if the present one says nothing."""
    is_kept = conversation.title_version == OWN_TITLE or (conversation.source == "api" and conversation.title)
    if is_kept or says_something(conversation.title):
        return conversation.title
    return title_of(*_first_questions(conversation)) or conversation.title


def _first_questions(conversation: Conversation) -> list[str]:
    asked = conversation.messages.filter(is_real_user=True, superseded=False).order_by("position")[:CANDIDATES]
    return [spoken_text(message.typed_parts) for message in asked]


def renew_titles(*, limit: int) -> int:
    """Choose titles again that an older version took from the questions; return how many rows were looked at.

    A title that is not one of the questions was given by the source or by the owner, and stays.
    """
    old = Conversation.objects.filter(title_version=None).order_by("pk")
    ids = list(old.values_list("pk", flat=True)[:limit])
    for number in ids:
        with transaction.atomic():
            conversation = old.select_for_update().filter(pk=number).first()
            if conversation is not None:
                questions = _first_questions(conversation)
                before, conversation.title_version = conversation.title, TITLE_VERSION
                is_question = before in {one_line(question, TITLE_CHARS) for question in questions}
                if is_question or not says_something(before):
                    conversation.title = title_of(*questions) or before
                conversation.save(update_fields=["title", "title_version"])
                if conversation.title != before:
                    conversation_changed.send(Conversation, conversation=conversation, first_turn=None)
    return len(ids)
