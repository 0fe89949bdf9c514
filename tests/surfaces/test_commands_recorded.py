"""What commands read or change of people's content is in the audit log; and commands name archives in one way."""

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import CommandError, call_command

from convmemory.accounts.callers import Caller
from convmemory.accounts.models import Archive, AuditEntry, ScimToken
from convmemory.accounts.scim.tokens import create_token
from convmemory.accounts.spaces import create_space
from convmemory.conversations import tasks
from convmemory.conversations.importing import imports
from convmemory.conversations.models import Message
from convmemory.core.acting import acting_for
from convmemory.sign_in.second_factor import renew_recovery_codes
from tests.factories import exchange, make_conversation, make_user
from tests.support.commands import own_commands
from tests.support.importing import run_at_once
from tests.support.planted_keys import planted_keys
from tests.unit.importers.helpers import assistant_line, user_line, write_lines

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("documents_here")]

CHAT = b'{"role": "user", "content": "where do zebrafish live?"}\n{"role": "assistant", "content": "In rivers."}\n'
SESSION = "0c5e2b7a-0000-4000-8000-00000000000b"
RECORDED: dict[str, tuple[str, str, str]] = {
    # The call, and the action with the beginning of what is recorded.
    "add_documents": ("{document} --user ada", "made", "document "),
    "connect": ("claude-code --user ada --home {home}", "made", "key "),
    "conversation_search": ("--query okapi --user ada --space mine", "read", "search"),
    "create_api_key": ("ada", "made", "key "),
    "erase_user": ("bob --yes", "erased", "account "),
    "erasures": ("--apply {ledger} --yes", "erased", "account "),
    "export_conversations": ("{target} --user ada", "exported", "conversations"),
    "export_user": ("ada {archive}", "exported", "everything"),
    "hide_keys": ("--user ada", "changed", "hidden keys"),
    "import_conversations": ("{chat} --user ada", "changed", "import "),
    "reimport": ("--user ada", "changed", "import "),
    "reset_second_factor": ("ada --yes", "deleted", "second factor"),
    "samples": ("--user ada", "changed", "sample conversations"),
    "scim_token": ("revoke {token} --yes", "revoked", "SCIM token "),
    "sync": ("--user ada --home {home} --yes", "changed", "import "),
}
RECORDED_ELSEWHERE = {
    "backup": "tests/surfaces/test_backup.py",
    "create_user": "tests/surfaces/test_commands.py",
    "evaluate": "tests/surfaces/test_evaluate_own_command.py",
    "mcp": "tests/surfaces/test_mcp.py",
    "restore": "tests/surfaces/test_backup.py",
    "watch": "tests/surfaces/test_watch_process.py",
}
READS_NO_CONTENT = {
    "audit": "prints the log, which holds no content",
    "bench": "works on users of its own",
    "capacity": "counts rows",
    "distribute": "moves whole tables",
    "doctor": "counts rows, and repairs what is derived from content",
    "groups": "counts rows",
    "models": "reads models, and counts rows",
    "reembed": "derives vectors from content, as workers do",
    "setup_roles": "makes log-ins of the database",
    "up": "starts processes",
    "web": "starts a process, whose requests are recorded",
    "worker": "starts a process",
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    run_at_once(monkeypatch)
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    settings.IMPORT_FOLDER = tmp_path / "imports"
    lines = [user_line("u1", "is the okapi shy?"), assistant_line("a1", "Very.")]
    write_lines(tmp_path / ".claude" / "projects" / "-okapi" / f"{SESSION}.jsonl", lines)
    return tmp_path


def keep(archive: User | Archive) -> None:
    """Import a file into the archive, which keeps the upload."""
    row = imports.queue_import(caller=Caller.for_archive(archive.pk), file=SimpleUploadedFile("chat.jsonl", CHAT))
    tasks.run(row.pk, archive_id=row.archive_id)


def with_key(archive: User | Archive, settings: Any) -> Message:
    """Store a key in the archive as it is."""
    settings.HIDE_KEYS = False
    text = f"my token is {planted_keys()['github-token']}"
    message: Message = make_conversation(archive, exchange((text, "Keep it."))).messages.order_by("position")[0]
    settings.HIDE_KEYS = True
    return message


def run(name: str, *arguments: str) -> str:
    out = StringIO()
    call_command(name, *arguments, stdout=out, stderr=StringIO())
    return out.getvalue()


def test_every_command_is_recorded_or_reads_no_content() -> None:
    assert own_commands().keys() == RECORDED.keys() | RECORDED_ELSEWHERE.keys() | READS_NO_CONTENT.keys()


@pytest.mark.parametrize("name", RECORDED)
def test_command_records_whose_content_it_reads_or_changes(name: str, home: Path, settings: Any) -> None:
    ada, bob, eve = make_user("ada"), make_user("bob"), make_user("eve")
    make_conversation(ada, exchange(("is the okapi shy?", "Very.")), title="okapi")
    renew_recovery_codes(ada)
    create_token(name="okta")
    if name == "reimport":
        keep(ada)
        Message.objects.filter(conversation__archive_id=ada.pk, role="assistant").delete()
    if name == "hide_keys":
        with_key(ada, settings)
    for path, text in (("okapi.md", "# Okapi\n\nIt is shy."), ("chat.jsonl", CHAT.decode())):
        (home / path).write_text(text)
    ledger = {"account": bob.pk, "joined_at": bob.date_joined.isoformat()}
    (home / "ledger").write_text(json.dumps(ledger))
    call, action, what = RECORDED[name]
    places = {
        "document": home / "okapi.md",
        "chat": home / "chat.jsonl",
        "target": home / "okapi.out",
        "archive": home / "ada.zip",
        "ledger": home / "ledger",
        "home": home,
        "token": ScimToken.objects.get().pk,
    }
    AuditEntry.objects.all().delete()
    run(name, *call.format(**places).split())
    entries = list(AuditEntry.objects.values_list("action", "surface", "person_id", "about_id", "what"))
    about = None if what in ("account ", "SCIM token ") else ada.pk
    expected: list[tuple[object, ...]] = [(action, "command", None, about, True)]
    assert [(*entry[:4], entry[4].startswith(what)) for entry in entries] == expected
    assert "okapi" not in str(entries)
    assert User.objects.filter(pk=eve.pk).exists()


@pytest.mark.parametrize("name", ["space 7", "zoë", "space", "7", "space 99999999999999999999"])
@pytest.mark.parametrize("command", ["hide_keys", "reimport", "reembed", "export_conversations", "erase_user"])
def test_name_of_no_archive_is_refused(command: str, name: str, tmp_path: Path) -> None:
    calls = {"erase_user": [name, "--yes"], "export_conversations": [str(tmp_path / "f"), "--user", name]}
    with pytest.raises(CommandError, match="There is no user"):
        run(command, *calls.get(command, ["--user", name]))


def test_commands_take_space_by_number(home: Path, settings: Any) -> None:
    ada = make_user("ada")
    with acting_for(ada.pk):
        space = create_space(person=ada, name="Boat house")
    own, shared = with_key(ada, settings), with_key(space, settings)
    keep(space)
    name = f"space {space.pk}"
    AuditEntry.objects.all().delete()

    def text_of(message: Message) -> str:
        message.refresh_from_db()
        return str(message.parts)

    key = planted_keys()["github-token"]
    assert f"{name}: keys hidden in 1 messages" in run("hide_keys", "--user", name)
    assert (key in text_of(own), key in text_of(shared)) == (True, False)
    assert "2 unchanged" in run("reimport", "--user", name)
    assert "No upload" not in run("reimport", "--user", name)
    target = home / "space.json"
    run("export_conversations", str(target), "--user", name, "--format", "json")
    assert "zebrafish" in target.read_text()
    assert key not in target.read_text()
    assert "2 sources" in run("reembed", "--user", name, "--dry-run")
    abouts = set(AuditEntry.objects.values_list("about_id", flat=True))
    assert abouts == {space.pk}
