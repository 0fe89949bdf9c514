"""The sample conversations, so that search finds something in a new installation."""

from collections.abc import Iterator
from importlib import resources

from convmemory.accounts.callers import Caller
from convmemory.conversations.curating import delete_all
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.messages import ingest
from convmemory.conversations.messages.drafts import ConversationDraft
from convmemory.conversations.models import Conversation

SAMPLES = resources.files("convmemory.conversations") / "samples"


def load_samples(caller: Caller) -> int:
    """Import every sample conversation for the caller; return how many there are. Running it again changes nothing."""
    return len([ingest.sync_conversation(caller=caller, draft=draft) for draft in _drafts()])


def stored_samples(caller: Caller) -> list[tuple[int, str]]:
    """Return the number and the title of each sample conversation in the caller's archive."""
    sources = {(draft.source, draft.source_id) for draft in _drafts()}
    rows = Conversation.objects.filter(
        archive_id=caller.archive_id,
        source__in={source for source, _ in sources},
        source_id__in={source_id for _, source_id in sources},
    )
    return list(rows.order_by("pk").values_list("pk", "title"))


def remove_samples(caller: Caller) -> int:
    """Put the caller's sample conversations into the trash; return how many. Raises: OnLegalHold."""
    return len(delete_all(caller=caller, conversation_ids=[number for number, _ in stored_samples(caller)]))


def _drafts() -> Iterator[ConversationDraft]:
    importer = PlainImporter()
    with resources.as_file(SAMPLES) as folder:
        for path in sorted(folder.glob("*.json")):
            yield from importer.parse(Source(path), FileReport(path=str(path)))
