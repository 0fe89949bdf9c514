"""Translates SCIM filters into conditions on rows, so that the database pages and counts what matches."""

from collections.abc import Callable, Mapping
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Q
from django.utils.dateparse import parse_datetime
from scim2_models import InvalidFilterException
from scim2_models.path import (
    AttrPath,
    CompareOperator,
    Comparison,
    FilterNode,
    FilterVisitor,
    LogicalExpr,
    LogicalOperator,
    Not,
    Present,
    ValuePath,
)

from convmemory.core.numbers import MAX_INTEGER, parse_number
from convmemory.core.text import storable

MAX_CHARS = 4_000

LOOKUPS = {
    CompareOperator.eq: "iexact",
    CompareOperator.co: "icontains",
    CompareOperator.sw: "istartswith",
    CompareOperator.ew: "iendswith",
    CompareOperator.gt: "gt",
    CompareOperator.ge: "gte",
    CompareOperator.lt: "lt",
    CompareOperator.le: "lte",
}
ORDERED = frozenset({CompareOperator.gt, CompareOperator.ge, CompareOperator.lt, CompareOperator.le})

Condition = Callable[[CompareOperator, Any], Q]


def refused(op: CompareOperator, kind: str) -> InvalidFilterException:
    return InvalidFilterException(detail=f"This server does not compare {kind} by {op.value!r}.")


def text(column: str, *, is_exact: bool = False) -> Condition:
    """Return the comparison of a text, which ignores letter case unless it `is_exact`."""

    def compare(op: CompareOperator, value: Any) -> Q:
        if op in ORDERED or not isinstance(value, str):
            raise refused(op, "texts")
        lookup = LOOKUPS[op]
        return Q(**{f"{column}__{lookup.removeprefix('i') if is_exact else lookup}": storable(value)})

    return compare


def moment(column: str) -> Condition:
    def compare(op: CompareOperator, value: Any) -> Q:
        at = parse_datetime(value) if isinstance(value, str) else None
        if at is None or (op not in ORDERED and op != CompareOperator.eq):
            raise refused(op, "times")
        return Q(**{f"{column}__{'exact' if op == CompareOperator.eq else LOOKUPS[op]}": at})

    return compare


def flag(column: str) -> Condition:
    def compare(op: CompareOperator, value: Any) -> Q:
        if op != CompareOperator.eq or not isinstance(value, bool):
            raise refused(op, "truth values")
        return Q(**{column: value})

    return compare


def number(condition: Callable[[int], Q]) -> Condition:
    """Return the comparison of an id, which SCIM writes as a text."""

    def compare(op: CompareOperator, value: Any) -> Q:
        if op != CompareOperator.eq or not isinstance(value, str):
            raise refused(op, "ids")
        number = parse_number(value, maximum=MAX_INTEGER)
        return Q(pk__in=[]) if number is None else condition(number)

    return compare


def _members(user_id: int) -> Q:
    return Q(pk__in=User.groups.through.objects.filter(user_id=user_id).values("group_id"))


def _groups(group_id: int) -> Q:
    return Q(pk__in=User.groups.through.objects.filter(group_id=group_id).values("user_id"))


_PRESENT = ~Q(pk__in=[])
_HAS_GROUPS = Q(pk__in=User.groups.through.objects.values("user_id"))
_HAS_MEMBERS = Q(pk__in=User.groups.through.objects.values("group_id"))
MANY_VALUES = frozenset({"members", "groups"})

USERS: Mapping[str, tuple[Condition, Q]] = {
    "id": (number(lambda pk: Q(pk=pk)), _PRESENT),
    "username": (text("username"), _PRESENT),
    "externalid": (text("provisioned__external_id", is_exact=True), Q(provisioned__external_id__gt="")),
    "name": (text("last_name"), ~Q(first_name="", last_name="")),
    "name.givenname": (text("first_name"), ~Q(first_name="")),
    "name.familyname": (text("last_name"), ~Q(last_name="")),
    "active": (flag("is_active"), _PRESENT),
    "emails": (text("address"), ~Q(address="")),
    "emails.value": (text("address"), ~Q(address="")),
    "emails.type": (text("provisioned__email_type"), Q(provisioned__email_type__gt="")),
    "emails.primary": (flag("provisioned__email_is_primary"), Q(provisioned__email_is_primary__isnull=False)),
    "groups": (number(_groups), _HAS_GROUPS),
    "groups.value": (number(_groups), _HAS_GROUPS),
    "meta.created": (moment("date_joined"), _PRESENT),
    "meta.lastmodified": (moment("changed_at"), _PRESENT),
}
GROUPS: Mapping[str, tuple[Condition, Q]] = {
    "id": (number(lambda pk: Q(pk=pk)), _PRESENT),
    "displayname": (text("name"), _PRESENT),
    "externalid": (text("provisioned__external_id", is_exact=True), Q(provisioned__external_id__gt="")),
    "members": (number(_members), _HAS_MEMBERS),
    "members.value": (number(_members), _HAS_MEMBERS),
    "meta.created": (moment("provisioned__created_at"), Q(provisioned__isnull=False)),
    "meta.lastmodified": (moment("provisioned__updated_at"), Q(provisioned__isnull=False)),
}
"""By the lower-case path of an attribute: how it is compared, and the condition that it is present.

A row has at most one address, so that conditions on its parts are conditions on the same address.
"""


class _Conditions(FilterVisitor[Q]):
    def __init__(self, attributes: Mapping[str, tuple[Condition, Q]], within: str = "") -> None:
        self._attributes, self._within = attributes, within

    def _attribute(self, path: AttrPath) -> tuple[Condition, Q]:
        name = ".".join(filter(None, (self._within, path.attr, path.sub_attr))).lower()
        if name not in self._attributes:
            raise InvalidFilterException(detail=f"This server does not filter by {name}.")
        return self._attributes[name]

    def visit_comparison(self, node: Comparison) -> Q:
        compare, present = self._attribute(node.attr_path)
        if node.value is None and node.op in (CompareOperator.eq, CompareOperator.ne):
            return ~present if node.op == CompareOperator.eq else present
        if node.op == CompareOperator.ne:
            return ~compare(CompareOperator.eq, node.value)
        return compare(node.op, node.value)

    def visit_present(self, node: Present) -> Q:
        return self._attribute(node.attr_path)[1]

    def visit_not(self, node: Not) -> Q:
        return ~self.visit(node.expr)

    def visit_logical_expr(self, node: LogicalExpr) -> Q:
        first, *others = (self.visit(term) for term in node.terms)
        for condition in others:
            first = first & condition if node.op == LogicalOperator.and_ else first | condition
        return first

    def visit_value_path(self, node: ValuePath) -> Q:
        inner = node.val_filter
        if node.attr_path.attr.lower() in MANY_VALUES and not (
            isinstance(inner, Comparison) and inner.op == CompareOperator.eq
        ):
            raise InvalidFilterException(detail='This server selects members and groups by [value eq "ID"] alone.')
        return _Conditions(self._attributes, node.attr_path.attr).visit(inner)


def condition_of(node: FilterNode, attributes: Mapping[str, tuple[Condition, Q]]) -> Q:
    """Return the condition of a filter's syntax tree. Raises: InvalidFilterException for what is not compared here."""
    if len(str(node)) > MAX_CHARS:
        raise InvalidFilterException(detail=f"A filter may have {MAX_CHARS:,} characters.")
    return _Conditions(attributes).visit(node)
