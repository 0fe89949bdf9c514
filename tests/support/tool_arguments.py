"""Random arguments for a tool, made from its own JSON Schema; what a name means comes from the test that asks."""

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator

MOMENTS = (  # in order, also as texts
    "2000-01-01T00:00:00Z",
    "2025-12-31T23:59:59+02:00",
    "2026-01-01T12:00:00Z",
    "2040-06-01T00:00:00Z",
)
ORDERED = (("from_turn", "to_turn"), ("after", "before"))  # what no schema says
NEEDS = {"alive_from_position": "conversation_id"}  # likewise
SMALL = 3  # where a schema sets no maximum

Schema = Mapping[str, Any]


def arguments_for(draw: st.DataObject, schema: Schema, known: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that the schema allows. `known` gives values, or strategies for them, by the argument's name.

    What is required is there, anything else in half of the draws; a range never ends before it begins.
    """
    required = set(schema.get("required", ()))
    made = {
        name: draw.draw(_known(known[name]) if name in known else _values(one))
        for name, one in schema["properties"].items()
        if name in required or (name != "cursor" and draw.draw(st.booleans()))
    }
    for name, needed in NEEDS.items():
        if name in made and needed not in made:
            del made[name]
    for lower, upper in ORDERED:
        if {lower, upper} <= made.keys():
            made[lower], made[upper] = sorted((made[lower], made[upper]))
    Draft202012Validator(schema).validate(made)
    return made


def _known(value: Any) -> st.SearchStrategy[Any]:
    return value if isinstance(value, st.SearchStrategy) else st.just(value)


def _values(schema: Schema) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of(*map(_values, schema["anyOf"]))
    kind = schema["type"]
    if kind == "integer":
        low = schema.get("minimum", 0)
        high = schema.get("maximum", low + SMALL)
        return st.one_of(st.just(high), st.integers(low, high))
    if kind == "array":
        return st.lists(_values(schema["items"]), min_size=schema.get("minItems", 0), max_size=SMALL, unique=True)
    if schema.get("format") == "date-time":
        return st.sampled_from(MOMENTS)
    plain = {"boolean": st.booleans(), "number": st.floats(0, 1), "null": st.none(), "string": st.just("bread")}
    return plain[kind]
