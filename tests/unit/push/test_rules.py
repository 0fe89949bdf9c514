"""Rules leave sessions out by their folder, by themselves, or all of them."""

import os
from pathlib import Path

import pytest

from convmemory.push.account import Account
from convmemory.push.databases import Session
from convmemory.push.rules import Rules


@pytest.fixture
def account(tmp_path: Path) -> Account:
    (tmp_path / ".config" / "convmemory").mkdir(parents=True)
    return Account(tmp_path)


def reason(account: Account, project: Path | str) -> str:
    return Rules.of(account, {}).reason(Session("s", str(project)))


@pytest.mark.parametrize("content", [b"", b"# all of it\n\n", b"\xff\xfe"])
def test_file_without_readable_pattern_leaves_out_folder_and_all_below(account: Account, content: bytes) -> None:
    folder = account.home / "work" / "secret"
    (folder / "deep").mkdir(parents=True)
    (folder / ".convmemory-ignore").write_bytes(content)
    for project in (folder, folder / "deep", folder / "gone" / "deeper", f"{folder}/deep/../"):
        assert reason(account, project) == str(folder / ".convmemory-ignore")
    for project in (folder.parent, account.home / "work" / "secrets", "secret", ""):
        assert reason(account, project) == ""


def test_file_that_cannot_be_read_leaves_out(account: Account) -> None:
    os.symlink(account.home / "gone", account.home / ".convmemory-ignore")
    assert reason(account, account.home / "a")


def test_patterns_apply_below_their_folder_and_deeper_files_win(account: Account) -> None:
    home = account.home
    for folder in ("work/client-a/app", "work/client-open/app", "work/open/keep"):
        (home / folder).mkdir(parents=True)
    (home / ".convmemory-ignore").write_text("client-*\nkeep\n")
    (home / "work" / ".convmemory-ignore").write_text("!client-open\n")
    (home / "work" / "open" / ".convmemory-ignore").write_text("!keep\n")
    assert reason(account, home / "work/client-a/app") == str(home / ".convmemory-ignore")
    for project in ("work/client-open/app", "work/open/keep", "work", ""):
        assert reason(account, home / project) == ""


def test_folder_behind_link_is_left_out_too(account: Account) -> None:
    (account.home / "secret").mkdir()
    (account.home / "secret" / ".convmemory-ignore").touch()
    os.symlink(account.home / "secret", account.home / "short")
    assert reason(account, account.home / "short" / "app")


def test_list_of_projects_leaves_out_all_others(account: Account) -> None:
    account.projects_file.write_text("# mine\n~/open\n/srv/app/\n")
    for project in (account.home / "open", account.home / "open" / "deep", "/srv/app", "/srv/x/../app/y"):
        assert reason(account, project) == ""
    for project in (account.home, account.home / "open2", "/srv", "", "open"):
        assert reason(account, project) == "not in the list of projects"
    account.projects_file.write_text("")
    assert reason(account, account.home / "open")


def test_pause_and_switch_stop_everything(account: Account) -> None:
    assert Rules.of(account, {"CONVMEMORY": "on"}).stop == ""
    assert Rules.of(account, {"CONVMEMORY": "OFF"}).stop == "CONVMEMORY=off"
    account.pause_file.touch()
    assert Rules.of(account, {}).stop == "paused"


def test_session_that_ran_switched_off_is_left_out_later(account: Account) -> None:
    id = "0c5e2b7a-0000-4000-8000-00000000000a"
    account.add_off(id, "/t/chat.json")
    account.add_off(id, "")
    assert account.off_file.read_text() == f"{id}\n/t/chat.json\n"
    rules = Rules.of(account, {})
    for name in (f"-p/{id}.jsonl", f"2026/rollout-1-{id}.jsonl.zst", f"-p/{id}/subagents/agent-1.jsonl", id):
        assert rules.reason(Session(name, "")) == "ran with CONVMEMORY=off"
    assert rules.reason(Session(id.replace("a", "b"), "")) == ""
