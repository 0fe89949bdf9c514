"""The sample conversations of a new installation, so that search finds something."""

from importlib import resources

from convmemory.accounts.callers import Caller
from convmemory.conversations.importers.base import FileReport, Source
from convmemory.conversations.importers.plain import PlainImporter
from convmemory.conversations.messages import ingest

SAMPLES = resources.files("convmemory.conversations") / "samples"


def load_samples(caller: Caller) -> int:
    """Import every sample conversation for `owner`; returns how many there are. Running it again changes nothing."""
    importer = PlainImporter()
    count = 0
    with resources.as_file(SAMPLES) as folder:
        for path in sorted(folder.glob("*.json")):
            for draft in importer.parse(Source(path), FileReport(path=str(path))):
                ingest.sync_conversation(caller=caller, draft=draft)
                count += 1
    return count
