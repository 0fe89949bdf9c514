"""Why a file is as it is: the turns that edited it, and which of them wrote a line."""

import pytest
from django.contrib.auth.models import User

from convmemory.accounts.callers import Caller
from convmemory.conversations.files import NOT_WRITTEN, history_of, matching_paths, why
from convmemory.conversations.messages import ingest
from convmemory.conversations.models import Conversation
from convmemory.push.repositories import Repository
from convmemory.tools.registry import run_tool
from tests.factories import make_conversation, make_user, user_says
from tests.integration.conversations.test_file_edits import agent_edits, write

pytestmark = pytest.mark.django_db
PATH = "/home/ada/well/src/pump.py"


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    return "Edit", {"file_path": path, "old_string": old, "new_string": new}


@pytest.fixture
def pump(owner: User) -> Conversation:
    """Two turns that edit one file: the second one changes a line of the first one."""
    return make_conversation(
        owner,
        [
            user_says("Write the pump."),
            *agent_edits(write(PATH, "rate = 40\nhose = 2\n"), text="The pump has a rate of 40."),
            user_says("It is too fast."),
            *agent_edits(edit(PATH, "rate = 40", "rate = 25"), text="The plate says 25 at most."),
        ],
        project="/home/ada/well", repository="github.com/ada/well", title="The pump",
    )  # fmt: skip


def test_turns_are_newest_first_with_question_and_outcome(owner: User, pump: Conversation) -> None:
    found = history_of(caller=Caller.of(owner), file="src/pump.py", project="/home/ada/well")
    assert [(turn.turn_number, turn.question, turn.outcome.conclusion) for turn in found.turns] == [
        (1, "It is too fast.", "The plate says 25 at most."),
        (0, "Write the pump.", "The pump has a rate of 40."),
    ]


@pytest.mark.parametrize(
    ("file", "project", "repository"),
    [
        ("pump.py", "", None),
        ("/home/ada/well/src/pump.py", "/home/ada/well", None),
        ("src/pump.py", "github.com/ada/well", None),
        ("/srv/kay/well/src/pump.py", "/srv/kay/well/src", Repository("github.com/ada/well", "/srv/kay/well")),
    ],
)
def test_file_is_known_by_its_path_on_any_machine(
    owner: User, pump: Conversation, file: str, project: str, repository: Repository | None
) -> None:
    found = history_of(caller=Caller.of(owner), file=file, project=project, repository=repository)
    assert (found.path, len(found.turns)) == ("src/pump.py", 2)


@pytest.mark.parametrize("folder", ["/home/ada/well/src", "/srv/kay/well/src", "/srv/other/src"])
def test_session_that_began_in_sub_folder_edits_the_same_file(owner: User, pump: Conversation, folder: str) -> None:
    at_root = "/home/ada/well"
    make_conversation(
        owner,
        [
            user_says("Faster."),
            *agent_edits(edit(f"{folder}/pump.py", "rate = 25", "rate = 30")),
            *agent_edits(write("notes.py", "x = 1\n")),
        ],
        project=folder, repository="github.com/ada/well",
    )  # fmt: skip
    make_conversation(owner, [user_says("Mine."), *agent_edits(write(f"{at_root}/notes.py", "y"))], project=at_root,
                      repository="github.com/ada/well")  # fmt: skip

    def edited(file: str) -> tuple[str, int]:
        found = history_of(caller=Caller.of(owner), file=file, project="github.com/ada/well")
        return found.path, len(found.turns)

    if folder != "/srv/other/src":  # nothing says where that repository begins
        assert edited("src/pump.py") == ("src/pump.py", 3)
        assert edited("src/notes.py") == ("src/notes.py", 1)
        answer = why(caller=Caller.of(owner), file="src/pump.py", project="github.com/ada/well", text="rate = 30")
        assert [line.turn.question for line in answer.lines if line.turn] == ["Faster."]
        assert edited("notes.py") == ("notes.py", 1)
    assert edited("src/pump.py")[0] == "src/pump.py"


def test_line_has_the_turn_that_wrote_it(owner: User, pump: Conversation) -> None:
    def turns(**asked: object) -> list[int | None]:
        found = why(caller=Caller.of(owner), file="src/pump.py", **asked)  # type: ignore[arg-type]
        return [line.turn.turn_number if line.turn else None for line in found.lines]

    assert turns(line=1) == [1]
    assert turns(line=2) == [0]
    assert turns(line=9) == []
    assert turns(text="hose = 2") == [0]
    assert turns(line=3, text="# added by hand\nrate = 25\nhose = 2\n") == [0]
    by_hand = why(caller=Caller.of(owner), file="src/pump.py", line=1, text="# added by hand\nrate = 25\nhose = 2\n")
    assert [line.turn for line in by_hand.lines] == [None]
    assert by_hand.note == NOT_WRITTEN


def test_edit_of_a_changed_file_says_that_it_was_edited_outside(owner: User, pump: Conversation) -> None:
    more = [user_says("Rename."), *agent_edits(edit(PATH, "hose = 3  # by hand", "pipe = 3"))]
    ingest.append_messages(caller=Caller.of(owner), conversation_id=pump.pk, drafts=more)
    answer = why(caller=Caller.of(owner), file="src/pump.py", text="pipe = 3")
    assert [line.turn.turn_number for line in answer.lines if line.turn] == [2]
    assert "edited outside of what is archived" in answer.note


def test_tool_says_which_turn_wrote_a_line(owner: User, pump: Conversation) -> None:
    answer = run_tool("why", {"file": "src/pump.py:1", "project": "well"}, Caller.of(owner))
    assert answer["lines"][0]["text"] == "rate = 25"
    assert answer["lines"][0]["turn"]["url"] == f"/conversations/{pump.pk}?turn=1"
    assert answer["total"] == 2
    unknown = run_tool("why", {"file": "nothing.py"}, Caller.of(owner))
    assert (unknown["turns"], unknown["note"]) == ([], "No archived session edited nothing.py.")


def test_files_of_other_owners_and_in_the_trash_are_unknown(owner: User, pump: Conversation) -> None:
    stranger = make_user()
    make_conversation(stranger, [user_says("Mine."), *agent_edits(write("/w/own.py", "x"))], project="/w")
    for file in ("src/pump.py", "pump.py", "/home/ada/well/src/pump.py"):
        answer = run_tool("why", {"file": file, "text": "rate = 25", "project": ""}, Caller.of(stranger))
        assert (answer["turns"], answer["lines"]) == ([], [])
    ingest.delete_conversation(caller=Caller.of(owner), conversation_id=pump.pk)
    assert run_tool("why", {"file": "pump.py"}, Caller.of(owner))["turns"] == []


def test_path_means_itself_or_those_that_end_with_it() -> None:
    stored = ["a.py", "lib/a.py", "src/lib/a.py"]
    assert matching_paths("a.py", stored) == ["a.py"]
    assert matching_paths("lib/a.py", stored[2:]) == ["src/lib/a.py"]
    assert matching_paths("/x/src/lib/a.py", stored) == stored
    assert matching_paths("b/a.py", stored[1:]) == []
