"""Commands that README and docs name exist and take the options given there; those of the first minutes run."""

import re
import shlex
from argparse import ArgumentParser, _SubParsersAction
from io import StringIO
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command, load_command_class

from tests.support.commands import all_commands

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OWN_APPS = ("convmemory", "memory", "search", "summaries")
SAMPLE = ROOT / "tests" / "fixtures" / "transcripts" / "plain"
CALL = re.compile(r"(?:manage\.py |`(?!manage\.py))([a-z]\w*)((?: [^`|\n#]*)?)")
MAKE = re.compile(r"(?:`|\$ (?:[A-Z]+=\S+ )?)make(?: ([a-z-]+))?\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def documented() -> list[tuple[str, str, str]]:
    """Page, command and the rest of its line, for each place that names one of our commands."""
    ours = {name for name, app in all_commands().items() if app.startswith(OWN_APPS)} | {"migrate"}
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in CALL.finditer(text):
            command, rest = match.groups()
            if "manage.py" in match.group() or (command in ours and OPTION.search(rest)):
                found.append((page.name, command, rest))
    return found


def options_of(command: str) -> set[str]:
    loaded = load_command_class(all_commands()[command], command)
    return _options(loaded.create_parser("manage.py", command))


def _options(parser: ArgumentParser) -> set[str]:
    parts = [action for action in parser._actions if isinstance(action, _SubParsersAction)]
    inner = [_options(part) for action in parts for part in action.choices.values()]
    return {option for action in parser._actions for option in action.option_strings}.union(*inner)


def test_every_command_that_is_named_exists_and_takes_its_options() -> None:
    calls = documented()
    assert len(calls) > 20
    for page, command, rest in calls:
        assert command in all_commands(), f"{page}: manage.py {command}"
        unknown = set(OPTION.findall(rest)) - options_of(command)
        assert not unknown, f"{page}: manage.py {command} takes no {unknown}"


def test_every_argument_of_every_command_has_help() -> None:
    ours = [name for name, app in all_commands().items() if app.startswith(OWN_APPS)]
    assert len(ours) > 30
    for name in ours:
        parser = load_command_class(all_commands()[name], name).create_parser("manage.py", name)
        assert [action.dest for action in parser._actions if action.help is None and action.choices is None] == [], name


def test_every_make_target_that_is_named_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = {target for page in PAGES for target in MAKE.findall(page.read_text(encoding="utf-8")) if target}
    assert {"run", "test"} <= named
    assert named <= targets


@pytest.mark.django_db
def test_commands_of_first_minutes_do_what_readme_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    (tmp_path / ".claude").mkdir()
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\$ \.venv/bin/python manage\.py (.+)$", text, re.MULTILINE)
    calls = [shlex.split(line, comments=True) for line in lines]
    assert [call[0] for call in calls] == [
        "create_api_key",
        "import_conversations",
        "conversation_search",
        "add_documents",
        "connect",
    ]
    answers = []
    for name, *arguments in calls:
        out = StringIO()
        given = [str(SAMPLE) if argument.startswith("~/") else argument for argument in arguments]
        call_command(name, *given, stdout=out, stderr=StringIO())
        answers.append(out.getvalue())
    assert User.objects.get().username == "ada"
    assert len(answers[0].split()[-1]) > 20
    assert "conversations" in answers[1]
    assert "mcp" in (tmp_path / ".claude.json").read_text(encoding="utf-8")


def test_capacity_command_of_docs_runs() -> None:
    out = StringIO()
    call_command("capacity", "--users", "10", "--turns-per-user", "1000", stdout=out)
    assert "search_passageblock" in out.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_file(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    missing = [link for link in links if not (page.parent / link).exists()]
    assert not missing
