from convmemory.conversations.importers.base import FileReport
from convmemory.conversations.importers.threads import MessageKeys, Node, Timeline, order_thread


def ordered(*nodes: tuple[str, str], current: str = "") -> tuple[str, FileReport]:
    """The ids in order, superseded ones in brackets; nodes are given as (id, parent)."""
    report = FileReport(path="f")
    placed = order_thread([Node(name, parent, name) for name, parent in nodes], report=report, current=current)
    return " ".join(f"({item.value})" if item.superseded else item.value for item in placed), report


def test_regenerated_answer_stands_behind_its_question_and_is_superseded() -> None:
    nodes = [("q", ""), ("a1", "q"), ("a2", "q"), ("next", "a2")]
    assert ordered(*nodes, current="next")[0] == "q (a1) a2 next"
    assert ordered(*nodes, current="a1")[0] == "q (a2) (next) a1"


def test_edited_first_prompt_leaves_whole_branch_behind() -> None:
    order, report = ordered(("q1", ""), ("a1", "q1"), ("b1", "q1"), ("q2", ""), ("a2", "q2"), current="a2")
    assert order == "(q1) (a1) (b1) q2 a2"
    assert report.repaired == 0


def test_without_current_message_last_branch_counts() -> None:
    assert ordered(("q", ""), ("a1", "q"), ("a2", "q"))[0] == "q (a1) a2"
    order, report = ordered(("q", ""), ("a1", "q"), ("a2", "q"), current="gone")
    assert order == "q (a1) a2"
    assert "'gone' is missing" in report.issues[0].reason


def test_message_with_missing_parent_follows_previous_one() -> None:
    order, report = ordered(("q", ""), ("a", "q"), ("q2", "lost"), ("a2", "q2"), current="a2")
    assert order == "q a q2 a2"
    assert (report.repaired, report.skipped) == (1, 0)


def test_circular_parents_are_cut_without_losing_messages() -> None:
    order, report = ordered(("a", "c"), ("b", "a"), ("c", "b"), ("self", "self"), current="c")
    assert sorted(order.replace("(", "").replace(")", "").split()) == ["a", "b", "c", "self"]
    assert report.repaired == 2
    assert ordered()[0] == ""


def test_rewind_takes_back_that_message_and_what_follows() -> None:
    line = Timeline()
    for key in "abcd":
        line.add(key)
    assert line.rewind_to("c") == 2
    line.add("e")
    assert line.superseded == {"c", "d"}
    line.add("d")
    assert line.superseded == {"c"}
    assert line.rewind_to("unknown") == 4
    assert line.superseded == {"a", "b", "c", "d", "e"}


def test_message_written_again_keeps_its_first_place() -> None:
    line = Timeline()
    for key in ("a", "b", "a"):
        line.add(key)
    line.rewind_to("b")
    assert line.superseded == {"b"}


def test_turns_are_rolled_back_with_prompt_that_opened_them() -> None:
    line = Timeline()
    for key, opens in (("q1", True), ("a1", False), ("q2", True), ("a2", False), ("tool", False)):
        line.add(key, opens_turn=opens)
    assert line.roll_back(1) == 3
    assert line.superseded == {"q2", "a2", "tool"}
    assert line.roll_back(10**9) == 2


def test_messages_without_id_are_named_by_what_they_say() -> None:
    first, again = MessageKeys(), MessageKeys()
    messages = [("user", "yes"), ("assistant", "Done."), ("user", "yes")]
    keys = [first.key(role, text, scope="t1") for role, text in messages]
    assert keys == [again.key(role, text, scope="t1") for role, text in messages]
    assert len(set(keys)) == 3
    assert first.key("user", "yes", scope="t2") not in keys
