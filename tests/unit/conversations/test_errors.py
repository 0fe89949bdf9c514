"""The signatures of errors, and what changed until one stopped appearing."""

import pytest

from convmemory.conversations.messages.edits import Edit
from convmemory.conversations.messages.errors import Fix, MessageInTurn, fix_in, signature_of, signatures_of
from convmemory.conversations.messages.parts import Part, TextPart, ToolCallPart, ToolResultPart

ERROR = "E       ModuleNotFoundError: No module named 'pumps.valve' (line 12)"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ERROR, "ModuleNotFoundError: No module named 'pumps.valve' (line 7)"),
        ("error: cannot open /home/ada/a.txt for writing", "error: cannot open C:\\Users\\kay\\b.txt for writing"),
        (
            "fatal: bad object 9fceb02d0ae598e9 in the tree of branch",
            "fatal: bad object 1a2b3c4d in the tree of branch",
        ),
        (
            "FAILED tests/test_pump.py::test_valve - OSError: the valve cannot be opened",
            "OSError: the valve cannot be opened",
        ),
        ("Error: ENOENT: no such file, open 'a/b.json'.", "ENOENT: no such file, open 'c/d.json'"),
        ("\x1b[31mERROR\x1b[0m: port 5432 refused the connection", "error\x1b[0m: port 5433 refused the connection"),
    ],
)
def test_reports_of_one_error_have_one_signature(one: str, other: str) -> None:
    assert signature_of(one)
    assert signature_of(one) == signature_of(other)


@pytest.mark.parametrize(
    "line", ["make: *** No rule to make target 'water'.  Stop.", "qemu: uncaught target signal 4 (Illegal instruction)"]
)
def test_lines_of_tools_without_the_word_error_have_a_signature(line: str) -> None:
    assert signature_of(line)


def test_lines_that_say_no_error_or_nothing_of_it_have_none() -> None:
    for line in ("1 failed, 2 passed in 0.3s", "Process exited with code 2", "all is well here today", "Error:", ""):
        assert signature_of(line) == ""
    other = ERROR.replace("pumps.valve", "numpy")
    assert signature_of(ERROR) != signature_of(other)
    assert signatures_of(f"start\n{other}\n{ERROR}\n1 failed") == [signature_of(ERROR), signature_of(other)]


def call(id: str, name: str, **given: str) -> Part:
    return ToolCallPart(id, name, given)


def ran(turn: int, output: str, *, fails: bool = False) -> list[MessageInTurn]:
    id = f"{turn}-{fails}"
    called = MessageInTurn(turn, "assistant", (call(id, "Bash", command="pytest -q"),))
    return [called, MessageInTurn(turn, "tool", (ToolResultPart(id, output, is_error=fails),))]


RUN, PASS = ran(0, ERROR, fails=True), ran(2, "1 passed")
EDIT = MessageInTurn(1, "assistant", (call("2", "Write", file_path="pumps/valve.py", content="open = 1"),))
WRITTEN = Edit("pumps/valve.py", content="open = 1")


def test_fix_is_the_turn_in_which_the_command_passed_with_what_changed() -> None:
    signatures = frozenset({signature_of(ERROR)})
    assert fix_in([*RUN, EDIT, *PASS], signatures) == Fix(2, "pytest -q", (WRITTEN,))
    assert fix_in([*RUN, EDIT], signatures) == Fix(1, "", (WRITTEN,))
    later = MessageInTurn(4, "assistant", (call("3", "Write", file_path="other.py", content="x = 2"),))
    assert fix_in([*RUN, EDIT, later], signatures) == Fix(1, "", (WRITTEN,))
    assert fix_in([*RUN, EDIT, *RUN], signatures) is None
    assert fix_in(RUN, signatures) is None
    assert fix_in([EDIT, *PASS], signatures) is None
    pasted = MessageInTurn(0, "user", (TextPart(f"What is this?\n{ERROR}"),))
    assert fix_in([pasted, EDIT], signatures) == Fix(1, "", (WRITTEN,))


def test_command_that_passes_after_a_pasted_error_may_have_ended_it() -> None:
    pasted = MessageInTurn(0, "user", (TextPart(f"Please mend this.\n{ERROR}"),))
    signatures = frozenset({signature_of(ERROR)})
    assert fix_in([pasted, *ran(0, "removed the hook"), *PASS], signatures) == Fix(0, "", ())
    assert fix_in([pasted, *ran(0, "no such file", fails=True)], signatures) is None
