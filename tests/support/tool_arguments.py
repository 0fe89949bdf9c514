"""Random arguments for a tool, made from its own JSON Schema; what a name means comes from the test that asks."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

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


def arguments_for(random: Random, schema: Schema, known: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Arguments that the schema allows. `known` gives functions that draw a value, by the argument's name.

    Required arguments are always there, the others in half of the draws; a range never ends before it begins.
    """
    required = set(schema.get("required", ()))
    made = {
        name: known[name]() if name in known else _value(random, one)
        for name, one in schema["properties"].items()
        if name in required or (name != "cursor" and random.random() < 0.5)
    }
    for name, needed in NEEDS.items():
        if name in made and needed not in made:
            del made[name]
    for lower, upper in ORDERED:
        if {lower, upper} <= made.keys():
            made[lower], made[upper] = sorted((made[lower], made[upper]))
    Draft202012Validator(schema).validate(made)
    return made


def _value(random: Random, schema: Schema) -> Any:
    if "enum" in schema:
        return random.choice(schema["enum"])
    if "anyOf" in schema:
        return _value(random, random.choice(schema["anyOf"]))
    match schema["type"]:
        case "integer":
            low = schema.get("minimum", 0)
            high = schema.get("maximum", low + SMALL)
            return random.choice([high, random.randint(low, high)])
        case "array":
            drawn = [_value(random, schema["items"]) for _ in range(SMALL)]
            different = list(dict.fromkeys(drawn))
            return different[: random.randint(schema.get("minItems", 0), len(different))]
        case "string" if schema.get("format") == "date-time":
            return random.choice(MOMENTS)
        case plain:
            return {"boolean": random.random() < 0.5, "number": random.random(), "null": None, "string": "bread"}[plain]
