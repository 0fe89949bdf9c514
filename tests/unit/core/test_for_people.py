"""Messages of operations in words for people."""

from django.contrib.auth.models import User

from convmemory.core.templatetags.people import for_people

WAITS = "It waits for its turn. If that takes minutes, ask who runs this server: `manage.py worker` starts one."
REFUSED = "The endpoint refused the key: check CHAT_API_KEY."
NO_ROOM = "No room is left (MAX_STORED_MB_PER_USER). Delete what you no longer need."


def test_people_are_sent_to_operator_and_operators_are_told_how() -> None:
    reader, operator = User(username="ada"), User(username="root", is_staff=True)
    assert for_people(WAITS, reader) == "It waits for its turn. If that takes minutes, ask who runs this server."
    assert for_people(WAITS, operator) == WAITS.replace("`", "")
    assert for_people(REFUSED, reader) == "The endpoint refused the key. Ask who runs this server."
    assert for_people(NO_ROOM, reader) == "No room is left. Delete what you no longer need."
    assert for_people("A `--flag` is odd. Set LOG_LEVEL.", None) == "A --flag is odd. Ask who runs this server."
    assert for_people(None, reader) == for_people("", reader) == ""
