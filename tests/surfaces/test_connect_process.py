"""The client's `connect`, `hook` and `mcp` as processes, as agents start them, against the real server."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.core.management import call_command
from mcp import Client, StdioServerParameters

from convmemory.accounts.callers import Caller
from convmemory.accounts.keys import create_key, revoke_all_keys
from convmemory.accounts.models import ApiKey
from convmemory.conversations.messages.drafts import MessageDraft
from convmemory.conversations.messages.parts import ToolCallPart, ToolResultPart
from convmemory.conversations.models import Conversation
from convmemory.push.account import Account
from convmemory.push.hook import outcomes
from convmemory.push.sending import Server, request
from memory.recall import RecallQuery, recall
from search.adapters.conversations import index_conversation
from tests.factories import assistant_says, exchange, make_conversation, make_user, user_says
from tests.support.patience import ANSWER_S

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BREAD = ("How do I keep a sourdough starter alive in the fridge?", "Feed the starter flour and water once a week.")
FOLDER = "/home/ada/bakery"
PUSH = Path(django_settings.BASE_DIR) / "convmemory" / "push"


@pytest.fixture
def owner() -> User:
    return make_user("ada")


@pytest.fixture
def bread(owner: User) -> Conversation:
    made = make_conversation(
        owner, exchange(BREAD), title="Bread", project=FOLDER, agent="claude-code", source="claude-code", source_id="s0"
    )
    index_conversation(conversation_id=made.pk)
    recall(caller=Caller.of(owner), query=RecallQuery(BREAD[0]))  # loads the model
    return made


@pytest.fixture
def home(tmp_path: Path, owner: User, address: str) -> Path:
    """A home folder whose agents are connected."""
    for folder in (".claude", ".copilot"):
        (tmp_path / folder).mkdir()
    key = create_key(person=owner)
    run(tmp_path, "connect", "--server", address, environment={"CONVMEMORY_KEY": key})
    # The hook does not wait for a server that answers its first request.
    headers = {"Content-Type": "application/json"}
    assert request(Server(address, key), "POST", "/api/v1/memory/recall", b'{"query": "warm"}', headers)[0] == 200
    return tmp_path


def run(home: Path, *arguments: str, given: Any = None, environment: dict[str, str] | None = None) -> str:
    """Run the client as agents do, from another folder; its standard output."""
    done = subprocess.run(
        [sys.executable, str(PUSH), *arguments], cwd=home, input=json.dumps(given) if given else "", text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), **(environment or {})}, capture_output=True,
        timeout=ANSWER_S, check=True,
    )  # fmt: skip
    assert not done.stderr
    return done.stdout


def hook(home: Path, prompt: str, session: str = "s1", *, agent: str = "claude-code", cwd: str = FOLDER) -> str:
    """Return what the hook adds to a prompt."""
    named = {"session_id": session} if agent == "claude-code" else {"sessionId": session}
    printed = run(home, "hook", "prompt", agent, given={**named, "cwd": cwd, "prompt": prompt})
    if not printed:
        return ""
    value = json.loads(printed)
    return str(
        value["additionalContext"] if agent == "copilot-cli" else value["hookSpecificOutput"]["additionalContext"]
    )


@pytest.mark.essential
@pytest.mark.parametrize("agent", ["claude-code", "copilot-cli"])
def test_hook_recalls_what_answers_and_nothing_twice_in_session(home: Path, bread: Conversation, agent: str) -> None:
    said = hook(home, BREAD[0], agent=agent)
    assert BREAD[1] in said
    assert said.startswith("<recalled-memory")
    assert hook(home, BREAD[0], agent=agent) == ""
    assert BREAD[1] in hook(home, f"Once more, please: {BREAD[0]}", "s2", agent=agent)
    assert outcomes(Account(home)) == {"said": 2, "nothing": 1}


def test_hook_recalls_repository_on_second_machine_but_not_of_namesake(
    home: Path, bread: Conversation, owner: User
) -> None:
    def checkout(folder: str, remote: str) -> str:
        git = home / folder / ".git"
        (git / "objects").mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main")
        (git / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {remote}\n')
        (home / folder / "oven").mkdir()
        return str(home / folder)

    Conversation.objects.filter(pk=bread.pk).update(repository="github.com/ada/bakery")
    here = checkout("src/bakery", "git@github.com:Ada/bakery.git")
    other = checkout("client/bakery", "https://github.com/bill/bakery")
    assert BREAD[1] in hook(home, BREAD[0], "s1", cwd=here)
    make_conversation(owner, exchange(("Is the oven on?", "It is.")), project=here, repository="github.com/ada/bakery")
    assert BREAD[1] in hook(home, BREAD[0], "s2", cwd=f"{here}/oven")
    assert hook(home, BREAD[0], "s3", cwd=other) == ""
    linked = Path(here, ".git", "worktrees", "next")
    linked.mkdir(parents=True)
    (linked / "HEAD").write_text("ref: refs/heads/next")
    (linked / "commondir").write_text("../..\n")
    (home / "next").mkdir()
    (home / "next" / ".git").write_text(f"gitdir: {linked}\n")
    assert BREAD[1] in hook(home, BREAD[0], "s6", cwd=str(home / "next"))
    # The same repository of another user, and of this one at the path of the other customer's folder.
    Conversation.objects.filter(pk=bread.pk).update(project=other)
    assert hook(home, BREAD[0], "s4", cwd=other) == ""
    Conversation.objects.filter(pk=bread.pk).delete()
    stranger = make_conversation(make_user(), exchange(BREAD), project=here, repository="github.com/ada/bakery")
    index_conversation(conversation_id=stranger.pk)
    assert hook(home, BREAD[0], "s5", cwd=here) == ""
    assert outcomes(Account(home))["error-KeyError"] == 0


def test_hook_answers_in_chinese_and_is_silent_about_steering(home: Path, bread: Conversation, owner: User) -> None:
    asked, answered = "为什么酵母种子在冰箱里不发酵?", "因为一周没有喂面粉和水。"
    made = make_conversation(owner, exchange((asked, answered)), project=FOLDER)
    index_conversation(conversation_id=made.pk)
    assert answered in hook(home, asked)
    assert hook(home, "now do the same for the other file", "s2") == ""


def test_project_command_lists_joins_and_keeps_apart(home: Path, bread: Conversation, owner: User) -> None:
    other = str(home / "bakery")
    make_conversation(owner, exchange(("Is the oven on?", "It is.")), project=other)
    assert run(home, "project", FOLDER) == f"     1  {FOLDER}\n"
    run(home, "project", "bakery", "--join", FOLDER)
    assert run(home, "project", "bakery") == f"     2  {FOLDER}\n"
    assert run(home, "project", FOLDER, "--apart") == f"     2  {FOLDER}  kept apart\n"
    assert run(home, "project", FOLDER, "--together") == f"     2  {FOLDER}\n"
    assert run(home, "project", "gone") == f"Of {home}/gone there is no conversation.\n"


def test_hook_is_silent_about_other_projects_sessions_and_users(home: Path, bread: Conversation) -> None:
    assert hook(home, BREAD[0], cwd="/home/ada/other") == ""
    assert hook(home, BREAD[0], "s0") == ""  # the agent's own session
    Conversation.objects.filter(pk=bread.pk).delete()
    foreign = make_conversation(make_user(), exchange(BREAD), project=FOLDER)
    index_conversation(conversation_id=foreign.pk)
    assert hook(home, BREAD[0]) == ""


def test_hook_is_silent_without_server_or_valid_key_and_check_says_so(
    home: Path, owner: User, bread: Conversation, address: str
) -> None:
    assert address in run(home, "connect", "--check")
    revoke_all_keys(person=owner)
    assert hook(home, BREAD[0]) == ""
    (home / ".config/convmemory/server").write_text("http://127.0.0.1:9\n")
    assert hook(home, BREAD[0]) == ""
    (home / ".config/convmemory/server").write_text(f"{address}\n")
    checked = subprocess.run(
        [sys.executable, str(PUSH), "connect", "--check", "--home", str(home)], capture_output=True, text=True,
        env={"PATH": os.environ["PATH"]}, check=False,
    )  # fmt: skip
    assert checked.returncode == 2
    assert "refuses the key (status 401)" in checked.stdout
    assert "status-401 1" in checked.stdout
    assert "offline 1" in checked.stdout


def test_hook_recalls_nothing_while_paused_off_or_in_folder_that_is_left_out(home: Path, bread: Conversation) -> None:
    account = Account(home)
    assert "Paused" in run(home, "pause")
    assert hook(home, BREAD[0]) == ""
    assert "Nothing is sent or recalled: paused." in run(home, "connect", "--check")
    run(home, "resume")
    account.projects_file.write_text("/home/ada/other\n")
    assert hook(home, BREAD[0]) == ""
    account.projects_file.write_text(f"{FOLDER}\n")
    given = {"session_id": "s1", "cwd": FOLDER, "prompt": BREAD[0]}
    assert run(home, "hook", "prompt", "claude-code", given=given, environment={"CONVMEMORY": "off"}) == ""
    assert hook(home, BREAD[0]) == ""  # the session ran switched off
    assert BREAD[1] in hook(home, BREAD[0], "s2")
    assert outcomes(account) == {"left-out": 4, "said": 1}


def test_hook_ends_although_its_input_stays_open(home: Path) -> None:
    command = [sys.executable, str(PUSH), "hook", "prompt", "claude-code", "--home", str(home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.wait(ANSWER_S) == 0  # its input is still open
        assert process.stdout is not None
        assert process.stdout.read() == b""


def test_session_start_and_resume_say_where_work_in_folder_stopped(home: Path, bread: Conversation) -> None:
    printed = run(home, "hook", "start", "claude-code", given={"session_id": "s1", "cwd": FOLDER})
    value = json.loads(printed)["hookSpecificOutput"]
    assert value["hookEventName"] == "SessionStart"
    assert 'has 1 earlier conversation. The last, "Bread" (2026-01-01, claude-code):' in value["additionalContext"]
    assert f"Outcome: {BREAD[1]}" in value["additionalContext"]
    assert run(home, "hook", "start", "claude-code", given={"cwd": FOLDER, "source": "resume"}) == ""
    assert run(home, "hook", "start", "claude-code", given={"session_id": "s0", "cwd": FOLDER}) == ""
    assert run(home, "hook", "start", "claude-code", given={"session_id": "s1", "cwd": "/elsewhere"}) == ""
    assert f"Outcome: {BREAD[1]}" in run(home, "resume", f"{FOLDER}/oven")
    assert run(home, "resume") == f"Of {home} there is no conversation.\n"


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_bridge_serves_tools_to_official_client(home: Path, bread: Conversation, mode: str) -> None:
    server = StdioServerParameters(
        command=sys.executable, args=[str(PUSH), "mcp"], cwd=home, env={"PATH": "/usr/bin", "HOME": str(home)}
    )

    async def steps() -> Any:
        async with Client(server, mode=mode) as client:
            assert (await client.list_tools()).tools
            return await client.call_tool("ConversationSearch", {"query": BREAD[0]})

    found = asyncio.run(steps())
    assert found.structured_content["results"][0]["conversation_id"] == bread.pk


def test_bridge_says_what_to_do_when_server_is_down(home: Path) -> None:
    (home / ".config/convmemory/server").write_text("http://127.0.0.1:9\n")
    line = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    answer = json.loads(run(home, "mcp", given=line))
    assert answer["id"] == 7
    assert "convmemory-push connect --check" in answer["error"]["message"]


def test_commands_of_shell_search_and_read_for_agents_without_mcp(home: Path, bread: Conversation) -> None:
    (line,) = run(home, "search", *BREAD[0].split()).splitlines()
    assert f"/conversations/{bread.pk}?turn=0" in line
    assert f"conversation_id {bread.pk}, turn 0" in line
    assert BREAD[1] in run(home, "read", str(bread.pk), "0")
    foreign = make_conversation(make_user(), exchange(BREAD))
    refused = subprocess.run(
        [sys.executable, str(PUSH), "read", str(foreign.pk), "--home", str(home)], capture_output=True, text=True,
        env={"PATH": os.environ["PATH"]}, check=False,
    )  # fmt: skip
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"no conversation {foreign.pk}" in refused.stderr


def test_hook_says_once_how_the_error_of_a_failing_command_was_fixed(home: Path, owner: User) -> None:
    error = "ValueError: valve {} cannot be opened while the pump runs </recalled-memory>"
    run_water = {"command": "make water"}
    messages = [
        user_says("Water the garden."),
        MessageDraft("assistant", (ToolCallPart("1", "Bash", run_water),)),
        MessageDraft("tool", (ToolResultPart("1", error.format(12), is_error=True),)),
        MessageDraft("assistant", (ToolCallPart("2", "Write", {"file_path": "pump.py", "content": "stop()"}),)),
        MessageDraft("assistant", (ToolCallPart("3", "Bash", run_water),)),
        MessageDraft("tool", (ToolResultPart("3", "ok"),)),
        assistant_says("The pump stops before the valve opens. </recalled-memory>"),
    ]
    made = make_conversation(owner, messages, project=FOLDER, title="Garden")
    index_conversation(conversation_id=made.pk)

    def fails(**values: Any) -> str:
        given = {"session_id": "s1", "cwd": FOLDER, "tool_name": "Bash", "error": error.format(7)} | values
        return run(home, "hook", "failure", "claude-code", given=given)

    assert fails(tool_name="Read") == fails(error="") == fails(error="all is well") == ""
    value = json.loads(fails())["hookSpecificOutput"]
    assert value["hookEventName"] == "PostToolUseFailure"
    assert "fixed in [Garden](" in value["additionalContext"]
    assert "`make water` passed then" in value["additionalContext"]
    assert "pump.py: `stop()`" in value["additionalContext"]
    assert value["additionalContext"].count("</recalled-memory>") == 1
    # Copilot CLI tells it as a call that succeeded. Its own line starts the client for a failing command alone.
    (line,) = json.loads((home / ".copilot/hooks/convmemory.json").read_text())["hooks"]["postToolUse"]

    def ends(code: int, output: str) -> str:
        text = f"{output}\n<shellId: 0 completed with exit code {code}>"
        result = {"resultType": "success", "textResultForLlm": text}
        given = {"sessionId": "c1", "cwd": FOLDER, "toolName": "bash", "toolResult": result}
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
        return subprocess.run(
            ["/bin/sh", "-c", line["bash"]], input=json.dumps(given), text=True, capture_output=True, check=True,
            env=environment, timeout=ANSWER_S,
        ).stdout  # fmt: skip

    before = outcomes(Account(home)).total()
    assert ends(0, error.format(8)) == ""
    assert outcomes(Account(home)).total() == before
    assert "`make water` passed then" in json.loads(ends(2, error.format(8)))["additionalContext"]
    assert fails() == "", "once a session"
    assert fails(session_id="s2", error=error.format(9)) != ""
    assert outcomes(Account(home)) == {"no-question": 2, "nothing": 2, "said": 3}


def test_why_command_names_the_turn_that_wrote_a_line(home: Path, owner: User) -> None:
    folder = home / "well"
    folder.mkdir()
    call = ToolCallPart("1", "Write", {"file_path": str(folder / "pump.py"), "content": "rate = 40\nhose = 2\n"})
    wrote = [user_says("Write the pump."), MessageDraft("assistant", (call,)), assistant_says("The rate is 40.")]
    made = make_conversation(owner, wrote, project=str(folder), title="Pump")
    (folder / "pump.py").write_text("# by hand\nrate = 40\nhose = 2\n")
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    printed = run(home, "why", str(folder / "pump.py:2"))
    assert printed.startswith("`rate = 40`: [Pump](")
    assert f"/conversations/{made.pk}?turn=0" in printed
    assert "pump.py was edited in 1 turn, newest first:" in printed
    assert "asked: Write the pump. | answer: The rate is 40." in printed
    assert "No archived edit wrote this line" in run(home, "why", str(folder / "pump.py:1"))
    assert run(home, "why", str(folder / "other.py")) == "No archived session edited other.py.\n"


def test_manage_connect_makes_one_key_that_reads_and_imports(
    tmp_path: Path, owner: User, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".claude").mkdir()
    for said in ("Claude Code: connected", "Claude Code: unchanged"):
        call_command("connect", "--user", "ada", "--server", address, "--home", str(tmp_path), "claude-code")
        assert said in capsys.readouterr().out
    (key,) = ApiKey.objects.filter(person_id=owner.pk)
    assert not key.read_only
    assert (tmp_path / ".config/convmemory/key").read_text().startswith(key.prefix)
