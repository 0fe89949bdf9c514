"""Two web and two worker processes on an external PostgreSQL, one worker killed on the way."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.fleet import Fleet, fleet, run

pytestmark = pytest.mark.slow

TURNS = 120
TIMEOUT_S = 400


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("fleet")
    for parent in (folder, *folder.parents[:2]):
        parent.chmod(0o755)
    with fleet(folder) as made:
        yield made


def test_errors_in_logs_are_printed_with_their_stacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    error = {"level": "ERROR", "message": "Internal Server Error", "request_id": "trace-0815", "exception": "in rank"}
    lines = ["Starting ...", json.dumps({"level": "INFO", "message": "GET / 200"}), json.dumps(error), "7", "[]"]
    (tmp_path / "web-1.log").write_text("\n".join(lines))
    Fleet(tmp_path).print_errors()
    assert capsys.readouterr().err == "web-1.log: trace-0815 Internal Server Error\nin rank\n"


def test_worker_check_fails_while_no_worker_runs(made: Fleet) -> None:
    with pytest.raises(AssertionError, match="No worker runs on this host"):
        made.manage("worker", "--check")


def test_every_turn_is_embedded_exactly_once_though_worker_dies(made: Fleet) -> None:
    outcome = run(made, turns=TURNS, timeout_s=TIMEOUT_S)
    assert (outcome.turns, outcome.embedded_turns) == (TURNS, TURNS)
    assert (outcome.doubled, outcome.missing_passages) == (0, 0)
    assert "A worker runs." in made.manage("worker", "--check")


def test_both_web_processes_find_all_conversations(made: Fleet) -> None:
    for web in made.webs:
        found = made.get(f"{web}/api/v1/conversations/search?query=note%207-3")
        assert found
        assert "note 7-3" in json.dumps(found["results"])
