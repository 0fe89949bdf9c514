"""The Django groups of people: what staff, SCIM and identity providers put them into.

Groups carry permissions of the administration and quotas. A module that derives more from them receives Django's
signal of `User.groups`, which every change here sends.
"""

from collections.abc import Collection

from django.contrib.auth.models import Group

from convmemory.accounts.auditing import Action, record


def change_members(*, group: Group, join: Collection[int] = (), leave: Collection[int] = (), by: str) -> None:
    """Put people into a group and take others out; the audit log says of each `by` what.

    The ids are those of existing users.
    """
    for people, action in ((join, Action.MADE), (leave, Action.REVOKED)):
        for person_id in sorted(people):
            record(action, what=f"member of group {group.pk} {by}", person_id=None, about_id=person_id)
    group.user_set.add(*join)
    group.user_set.remove(*leave)
