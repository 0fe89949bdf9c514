"""Background tasks of the chat."""

from typing import Any

from convmemory.chat.replies import release_abandoned


def sweep() -> dict[str, Any]:
    """Take back conversations whose writer died; scheduled every minute."""
    return {"released": len(release_abandoned())}
