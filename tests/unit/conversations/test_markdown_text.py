"""Parts of messages as Markdown."""

import pytest

from convmemory.conversations.exports.markdown_text import part_as_markdown
from convmemory.conversations.messages.parts import TextPart


@pytest.mark.parametrize(
    ("text", "added"),
    [
        ("no fence", ""),
        ("```python\nx = 1", "\n```"),
        ("a\n\n~~~~\nx = 1\n~~~", "\n~~~~"),
        ("```\nx = 1\n```", ""),
        ("```\nx\n```\n\nand\n\n````\n```\ny", "\n````"),
        ("- in a list\n  ```\n  x = 1", ""),
        ("> ```\n> x = 1", ""),
        ("`` ``` `` in a line", ""),
        ("```", "\n```"),
        ("```\n```", ""),
    ],
)
def test_fence_that_message_leaves_open_is_closed(text: str, added: str) -> None:
    assert part_as_markdown(TextPart(text)) == text + added
