import pytest

from convmemory.conversations.importers.base import project_of


@pytest.mark.parametrize(
    ("directory", "project"),
    [
        ("/home/ada/barn", "/home/ada/barn"),
        ("/home/ada/barn/.worktrees/roof", "/home/ada/barn"),
        ("/home/ada/barn/.worktrees/roof/src", "/home/ada/barn"),
        ("/home/ada/barn/.claude/worktrees/x", "/home/ada/barn"),
        (r"D:\barn\.worktrees\1", r"D:\barn"),
        ("/home/ada/barn/.worktrees", "/home/ada/barn/.worktrees"),
        ("/.worktrees/a", "/.worktrees/a"),
        ("", ""),
    ],
)
def test_worktree_belongs_to_its_repository(directory: str, project: str) -> None:
    assert project_of(directory) == project
