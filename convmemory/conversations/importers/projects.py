"""The project of a conversation: its working directory, and for a git worktree the repository's.

Only the path's text is used: the directory may be on another machine, or deleted.
"""

import re

MAX_CHARS = 4_000  # Linux has no longer paths
_WORKTREE = re.compile(r"[/\\](?:\.claude[/\\]worktrees|\.worktrees)[/\\][^/\\]+")


def project_of(directory: str) -> str:
    """Return the directory; for `REPOSITORY/.worktrees/NAME` and `REPOSITORY/.claude/worktrees/NAME` the repository."""
    if len(directory) > MAX_CHARS:
        return directory
    found = _WORKTREE.search(directory)
    return directory[: found.start()] if found and found.start() else directory
