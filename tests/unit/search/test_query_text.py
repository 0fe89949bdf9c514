"""Quoted phrases and excluded words."""

import pytest

from search.query_text import QueryText, parse_query
from search.ranking.topics import topic_of


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("how to boil an egg", QueryText("how to boil an egg")),
        ('the "connection pool" is full', QueryText("the connection pool is full", ("connection pool",))),
        ("gcc -fno-exceptions undefined reference", QueryText("gcc -fno-exceptions undefined reference")),
        ("docker run -it --rm", QueryText("docker run -it --rm")),
        ("docker run -it", QueryText("docker run -it")),
        ("java -jar server.jar", QueryText("java -jar server.jar")),
        ("LEVEL=debug serve -quiet", QueryText("LEVEL=debug serve -quiet")),
        ("-bash: foo: command not found", QueryText("-bash: foo: command not found")),
        ("Traceback of main -verbose\nValueError", QueryText("Traceback of main -verbose ValueError")),
        ("sourdough -rye -spelt", QueryText("sourdough", (), ("rye", "spelt"))),
        ("python -snake", QueryText("python", (), ("snake",))),
        ('python -"big snake" tips', QueryText("python tips", (), ("big snake",))),
        ("well-known e-mail", QueryText("well-known e-mail")),
        ("-5 degrees", QueryText("-5 degrees")),
        ("stage by name, not git add -A", QueryText("stage by name, not git add -A")),
        ("`tail -20` truncates -v.", QueryText("`tail -20` truncates -v.")),
        ("pods -k8s", QueryText("pods", (), ("k8s",))),
        ("動物 -猫", QueryText("動物", (), ("猫",))),
        ("-only", QueryText("", (), ("only",))),
        ('-"not this" -only', QueryText("", (), ("not this", "only"))),
        ('"-only"', QueryText("-only", ("-only",))),
        ('set "use -only" -not', QueryText("set use -only", ("use -only",), ("not",))),
        ("👍 -only", QueryText("👍", (), ("only",))),
        ("?! -only", QueryText("", (), ("only",))),
        ("-v", QueryText("-v")),
        ("--only", QueryText("--only")),
        ('""', QueryText('""')),
        ('say "hello', QueryText('say "hello')),
        ("error -- 42", QueryText("error -- 42")),
        ("drop -retry_policy.max", QueryText("drop", (), ("retry_policy.max",))),
    ],
)
def test_quotes_and_minus_are_parsed(typed: str, expected: QueryText) -> None:
    assert parse_query(typed) == expected


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("conversations about sourdough", "sourdough"),
        ("Show me all my chats about the old boiler.", "the old boiler"),
        ("which discussions were about rent?", "rent"),
        ("find earlier threads regarding HTTP 429", "HTTP 429"),
        ("conversations", ""),
        ("conversations about", ""),
        ("sessions on Safari expire", ""),
        ("What did the conversations about rent decide?", ""),
        ("the chat window about box", ""),
        ('conversations about "rent"', ""),
    ],
)
def test_topic_is_read_where_query_asks_for_conversations_about_it(text: str, topic: str) -> None:
    assert topic_of(parse_query(text)) == topic
