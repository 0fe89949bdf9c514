"""Which folders are one project: repositories, sub-folders, worktrees, machines, and what the owner has chosen."""

import pytest

from convmemory.conversations.project_folders import Projects, StoredFolder
from convmemory.push.repositories import Repository

BARN, BILL = "github.com/ada/barn", "github.com/bill/barn"
HERE, THERE = "/home/ada/barn", "/Users/ada/src/barn"


def of(projects: Projects, name: str, repository: Repository | None = None) -> list[str]:
    return sorted(each.worktree or each.project for each in projects.of(name, repository))


def asked(projects: Projects, root: str, identity: str = "", *, folder: str = "", main: str = "") -> list[str]:
    """Ask as the client does in a folder."""
    return of(projects, folder or root, Repository(identity, root, main))


def test_repository_is_one_project_on_both_machines_and_in_sub_folders() -> None:
    one = StoredFolder(HERE, BARN)
    projects = Projects([one])
    assert asked(projects, THERE, BARN) == [HERE], "before the second machine has sessions"
    projects = Projects([one, StoredFolder(THERE, BARN), StoredFolder(f"{HERE}/door", BARN)])
    for root in (HERE, THERE, "/elsewhere"):
        assert asked(projects, root, BARN, folder=f"{root}/roof") == [THERE, HERE, f"{HERE}/door"]
    for name in (HERE, THERE, f"{HERE}/roof", BARN, "barn", "Barn"):
        assert of(projects, name) == [THERE, HERE, f"{HERE}/door"]


def test_earlier_sessions_without_repository_join_by_their_folder() -> None:
    folders = [StoredFolder(HERE), StoredFolder(HERE, BARN), StoredFolder(f"{HERE}/door"), StoredFolder(THERE, BARN)]
    projects = Projects(folders)
    for answer in (asked(projects, THERE, BARN), asked(projects, HERE, BARN), of(projects, THERE)):
        assert answer == [THERE, HERE, HERE, f"{HERE}/door"]


@pytest.mark.parametrize("folder", ["/srv/bill/barn", HERE, f"{HERE}/door", "/home/ada"])
def test_repository_of_another_customer_gets_nothing(folder: str) -> None:
    projects = Projects([StoredFolder(HERE, BARN), StoredFolder(HERE), StoredFolder(f"{HERE}/door")])
    assert asked(projects, folder, BILL) == []


def test_namesake_without_repository_gets_nothing() -> None:
    projects = Projects([StoredFolder("/srv/ada/barn"), StoredFolder("/srv/bill/barn")])
    assert asked(projects, "/srv/carl/barn") == of(projects, "/srv/carl/barn") == of(projects, "barn") == []
    assert asked(projects, "/srv/ada/barn") == of(projects, "/srv/ada/barn") == ["/srv/ada/barn"]


def test_folder_of_two_repositories_shows_each_its_own() -> None:
    projects = Projects([StoredFolder("/workspace", BARN), StoredFolder("/workspace", BILL)])
    assert projects.of("/workspace", Repository(BARN, "/workspace")) == {StoredFolder("/workspace", BARN)}
    assert len(projects.of("/workspace")) == 2


def test_sub_folder_of_folder_without_repository_finds_those_above_and_below() -> None:
    projects = Projects([StoredFolder(HERE), StoredFolder(f"{HERE}/door"), StoredFolder(f"{HERE}/roof")])
    assert asked(projects, "", folder=f"{HERE}/door/x") == of(projects, f"{HERE}/door") == [HERE, f"{HERE}/door"]
    assert asked(projects, "", folder=HERE) == [HERE, f"{HERE}/door", f"{HERE}/roof"]


def test_home_folder_is_not_the_project_of_what_is_below() -> None:
    projects = Projects([StoredFolder("/home/ada"), StoredFolder("/home/ada/notes")])
    assert asked(projects, "", folder="/home/ada/notes") == ["/home/ada/notes"]
    assert asked(projects, "", folder="/home/ada/other") == []
    assert asked(projects, "", folder="/home/ada") == ["/home/ada"]
    assert of(projects, "/home/ada") == ["/home/ada", "/home/ada/notes"]


def test_worktrees_share_until_they_are_kept_apart() -> None:
    inside, beside = f"{HERE}/.claude/worktrees/a", "/home/ada/barn-roof"
    folders = [StoredFolder(HERE), StoredFolder(HERE, "", inside), StoredFolder(HERE, BARN, beside)]
    projects = Projects(folders)
    everything = sorted([HERE, beside, inside])
    new = f"{HERE}/.worktrees/new"
    assert of(projects, inside) == of(projects, f"{inside}/x") == of(projects, HERE) == everything
    assert asked(projects, beside, BARN, main=HERE) == asked(projects, new, BARN, main=HERE) == everything
    projects = Projects(folders, separate=[(HERE, True)])
    assert of(projects, inside) == [inside]
    assert asked(projects, beside, BARN, main=HERE) == of(projects, f"{beside}/x") == [beside]
    assert asked(projects, new, BARN, main=HERE) == []
    assert of(projects, HERE) == [HERE]
    projects = Projects(folders, separate=[(beside, False)])
    assert asked(projects, beside, BARN, main=HERE) == [beside]
    assert of(projects, HERE) == [HERE, inside]


def test_folder_kept_apart_leaves_its_repository() -> None:
    projects = Projects([StoredFolder(HERE, BARN), StoredFolder(THERE, BARN)], separate=[(THERE, False)])
    assert asked(projects, THERE, BARN, folder=f"{THERE}/x") == [THERE]
    assert asked(projects, HERE, BARN) == of(projects, BARN) == [HERE]


def test_merged_project_is_one_for_both_repositories() -> None:
    renames = [("/srv/bill/barn", HERE, True)]
    projects = Projects([StoredFolder(HERE, BARN), StoredFolder(HERE, BILL)], renames)
    assert len(projects.of("/srv/bill/barn", Repository(BILL, "/srv/bill/barn"))) == 2
    assert len(projects.of(HERE, Repository(BARN, HERE))) == len(projects.of("/srv/bill/barn/x")) == 2


def test_spellings_of_windows_folder_are_one_project() -> None:
    spellings = ["C:\\Users\\kay\\barn", "c:/users/kay/barn", "/mnt/c/Users/kay/barn"]
    projects = Projects([StoredFolder(each) for each in spellings])
    for name in [*spellings, "/c/Users/kay/barn", "barn", "C:\\Users\\kay\\barn\\deep"]:
        assert len(projects.of(name)) == 3
