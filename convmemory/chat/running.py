"""Background work of a web process for the chat: takes over abandoned replies, and shuts down in order."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from convmemory.chat.clients import close_clients
from convmemory.chat.live import interrupt_all
from convmemory.chat.proxy import finish_recordings
from convmemory.conversations.responses import release_abandoned_responses
from convmemory.core import acting
from convmemory.core.completions import endpoint_from_settings
from convmemory.core.config import config
from convmemory.core.threads import in_thread

# Expired leases are taken back this often at least (ADR 14).
MAX_PAUSE_S = 10.0

logger = logging.getLogger(__name__)


@asynccontextmanager
async def chat_is_running() -> AsyncIterator[None]:
    """Run while the server serves; at the end, store replies in progress as interrupted."""
    watching = asyncio.create_task(_release_abandoned(), name="release-abandoned-replies")
    warming = asyncio.create_task(asyncio.to_thread(_warm_up))
    try:
        yield
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await warming
        await interrupt_all()
        await finish_recordings()
        await close_clients()


def _warm_up() -> None:
    """Import the client before the first reply needs it: the import takes a second."""
    if endpoint_from_settings() is not None:
        import openai  # noqa: F401


async def _release_abandoned() -> None:
    """Release abandoned replies every few seconds, so that a conversation is idle soon after its lease has expired.

    The worker's sweep does the same every minute, if no web process runs.
    """
    while True:
        try:
            with acting.maintenance():
                await in_thread(release_abandoned_responses)
        except Exception as error:  # the loop's boundary: the next round tries again
            logger.warning("Abandoned replies could not be looked for: %s", error)
        await asyncio.sleep(min(MAX_PAUSE_S, config.chat_lease_s / 3))
