"""Defines a tool: a name, a description for models, typed input and output, and one function.

The JSON Schemas (2020-12) for programs and models are generated from the types. They are kept short, because each
session of each client pays for them in tokens.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Generic, TypeVar

from django.utils import timezone
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode, SkipJsonSchema

from convmemory.accounts.callers import Caller
from convmemory.core.errors import InvalidInput
from convmemory.core.text import storable

Text = Annotated[str, AfterValidator(storable)]
Question = Annotated[str, Field(min_length=1, max_length=10_000), AfterValidator(storable)]
Moment = Annotated[datetime, AfterValidator(lambda at: at if timezone.is_aware(at) else timezone.make_aware(at))]
Optional = SkipJsonSchema[None]
"""The type `str | Optional` is a plain string in the schema, and is left out of an answer if it is None."""
# Defaults that say only "none" are left out of schemas. 0 equals False, so it is left out as well.
UNSAID: tuple[Any, ...] = (None, "", False, [])
MAX_LIST_CHARS = 1_000_000
_LINK = re.compile(r"/(?:conversations|documents)/([0-9]{1,18})(?:/turns/|\?turn=)?([0-9]{1,9})?")
TYPES = frozenset({"type", "format", "additionalProperties"})
WRITE_A_DATE = "not a date: write it as 2026-05-31 or 2026-05-31T14:30"

_site: ContextVar[str] = ContextVar("_site", default="")


@contextmanager
def links_from(site: str) -> Iterator[None]:
    """Let the tools called in the block answer with links that begin with this address of the server."""
    token = _site.set(site.rstrip("/"))
    try:
        yield
    finally:
        _site.reset(token)


def site() -> str:
    """Return the address that links begin with; an empty string for links within the server's own pages."""
    return _site.get()


class ToolInput(BaseModel):
    """The arguments of a tool; unknown ones are refused, so that a misspelt limit is not ignored.

    Clients and models write some in other ways: null or "null" for an optional one that they leave out, a list as its
    JSON text, and a link to a turn for an id.
    """

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _as_written(cls, arguments: Any) -> Any:
        if not isinstance(arguments, Mapping):
            return arguments
        values: dict[str, Any] = {}
        for name, value in arguments.items():
            field = cls.model_fields.get(name)
            if field is None or field.is_required() or value not in (None, "null"):
                values[name] = value
        for name, value in list(values.items()):
            if not isinstance(value, str) or name not in cls.model_fields:
                continue
            if name.endswith("_id") and (link := _LINK.search(value)):
                values[name] = int(link[1])
                if link[2] and {"from_turn", "to_turn"} <= cls.model_fields.keys() - values.keys():
                    values |= {"from_turn": int(link[2]), "to_turn": int(link[2])}
            elif value.startswith("[") and isinstance(cls.model_fields[name].default, list):
                with suppress(ValueError):
                    values[name] = json.loads(value[:MAX_LIST_CHARS])
        return values


class ToolOutput(BaseModel):
    """The answer of a tool: `reason` is the `Reason` why it is empty or incomplete, `note` says that and more."""

    note: str | Optional = None
    reason: str | Optional = None


class SearchOutput(ToolOutput):
    """The answer of a search; `pending` counts what waits for a worker and could belong to it."""

    pending: int | Optional = None


class TitledOutput(SearchOutput):
    """The answer of a search that also finds conversations and documents by their titles."""

    # The values show what they are; a type of their own would cost every client tokens.
    titles: Any = None


Input = TypeVar("Input", bound=ToolInput)
Output = TypeVar("Output", bound=ToolOutput)


@dataclass(frozen=True, slots=True)
class Tool(Generic[Input, Output]):
    """One tool, the same for chat, API and MCP. It only reads, unless `writes` says otherwise: then a key may not be
    read-only.

    `as_text` renders an answer for models, in fewer tokens than JSON; over MCP the answer is this text alone. `refuse`
    turns invalid arguments and the reason into an answer of the tool's own shape; without it they are an error.
    `is_offered` is called whenever tools are listed or called. A tool with `sees_documents` receives the only documents
    that it may search, or None for all, as its third argument.
    """

    name: str
    description: str
    input_model: type[Input]
    output_model: type[Output]
    function: Callable[..., Output]
    as_text: Callable[[dict[str, Any]], str] | None = None
    refuse: Callable[[object, str], Output] | None = None
    is_offered: Callable[[], bool] = lambda: True
    sees_documents: bool = False
    writes: bool = False

    @property
    def input_schema(self) -> dict[str, Any]:
        return _schema(self.input_model, "validation")

    @property
    def output_schema(self) -> dict[str, Any]:
        return _schema(self.output_model, "serialization")

    def run(
        self, arguments: Mapping[str, Any], caller: Caller | None, documents: frozenset[int] | None = None
    ) -> dict[str, Any]:
        """Return the answer as JSON values.

        `documents` are the only documents that the tool may search, if it is called in a conversation. Raises:
        InvalidInput, ReadOnlyKey, and whatever the function raises.
        """
        if caller is not None and caller.person is not None and not caller.person.is_active:
            caller = None
        if self.writes and caller is not None:
            caller.require_writing_key()
        try:
            checked = self.input_model.model_validate(arguments)
        except ValidationError as error:
            complaints = []
            for item in error.errors(include_url=False, include_input=False):
                if item["type"] == "none_required":
                    continue  # the complaint about the value itself says more
                path = ".".join(
                    each for each in map(str, item["loc"]) if "[" not in each
                )  # without names of validators
                complaint = item["msg"]
                if item["type"].startswith("datetime"):
                    complaint = WRITE_A_DATE
                elif item["type"] == "extra_forbidden":
                    complaint = f"there is no such argument, use any of {', '.join(self.input_model.model_fields)}"
                complaints.append(f"{path or 'arguments'}: {complaint}")
            reason = f"{self.name} cannot be called like this: {'; '.join(complaints)}."
            if self.refuse is None:
                raise InvalidInput(reason) from error
            return self.refuse(arguments, reason).model_dump(mode="json", exclude_none=True)
        seen = (documents,) if self.sees_documents else ()
        return self.function(caller, checked, *seen).model_dump(mode="json", exclude_none=True)


@cache
def _schema(model: type[BaseModel], mode: JsonSchemaMode) -> dict[str, Any]:
    return model.model_json_schema(mode=mode, schema_generator=_ShortSchema)


# Five tools cost 1,263 tokens of o200k_base like this; pydantic's titles, definitions and empty defaults would make
# them 1,791 (ADR 12).
class _ShortSchema(GenerateJsonSchema):
    """Leaves out of schemas what no caller reads: titles, docstrings of models, defaults that only say "none".

    Of answers it also leaves out what the values show anyway: their types.
    """

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def model_schema(self, schema: Any) -> dict[str, Any]:
        made = super().model_schema(schema)
        unread = {"title", "description"} | ({"required"} if self.mode == "serialization" else set())
        return {name: value for name, value in made.items() if name not in unread}

    def default_schema(self, schema: Any) -> dict[str, Any]:
        made = super().default_schema(schema)
        return {name: value for name, value in made.items() if name != "default" or value not in UNSAID}

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> dict[str, Any]:
        made = super().generate(schema, mode)
        inlined: dict[str, Any] = _inline(made, made.pop("$defs", {}))
        return inlined if mode == "validation" else _in_short(inlined)


def _in_short(value: Any, *, is_nested: bool = False) -> Any:
    """Return a schema in which only arrays, and objects with named values, have a type.

    Nested values are described only if their names do not say enough.
    """
    if not isinstance(value, dict):
        return value
    kind = value.get("type")
    left_out = frozenset() if kind == "array" or "properties" in value else TYPES
    short = {name: _in_short(item, is_nested=is_nested) for name, item in value.items() if name not in left_out}
    if kind == "array":
        short["items"] = _in_short(value["items"], is_nested=True)
    if kind == "object" and "properties" in value:
        named = {name: _in_short(item, is_nested=is_nested) for name, item in value["properties"].items()}
        short["properties"] = {name: item for name, item in named.items() if item or not is_nested}
    return {name: item for name, item in short.items() if item != {} or not is_nested}


def _inline(value: Any, definitions: Mapping[str, Any]) -> Any:
    """Return `value` with each reference replaced by its target.

    Each definition is used once here, so a reference would only cost tokens.
    """
    if isinstance(value, list):
        return [_inline(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return _inline(definitions[value["$ref"].rpartition("/")[2]], definitions)
    return {name: _inline(item, definitions) for name, item in value.items()}
