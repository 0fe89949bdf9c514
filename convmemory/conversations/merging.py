"""The order of a conversation's messages after a new import of its source. Pure."""


def merge_order(stored: list[int], incoming: list[int]) -> list[int]:
    """Return the incoming order, with stored messages that the source dropped after their predecessors."""
    kept = set(incoming)
    # Stored messages that the source dropped, by the kept message before them.
    followers: dict[int | None, list[int]] = {}
    anchor: int | None = None
    for pk in stored:
        if pk in kept:
            anchor = pk
        else:
            followers.setdefault(anchor, []).append(pk)
    order = list(followers.get(None, []))
    for pk in incoming:
        order.append(pk)
        order.extend(followers.get(pk, []))
    return order
