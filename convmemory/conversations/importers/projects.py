"""The project of a conversation: the directory that it was about, and for a git worktree the repository's.

Looks at the shape of the path alone: the directory may lie on another machine, or be gone.
"""

import re

MAX_CHARS = 4_000
_WORKTREE = re.compile(r"[/\\](?:\.claude[/\\]worktrees|\.worktrees)[/\\][^/\\]+")


def project_of(directory: str) -> str:
    """Return the directory; of `REPOSITORY/.worktrees/NAME` and `REPOSITORY/.claude/worktrees/NAME` the repository."""
    if len(directory) > MAX_CHARS:
        return directory
    found = _WORKTREE.search(directory)
    return directory[: found.start()] if found and found.start() else directory
