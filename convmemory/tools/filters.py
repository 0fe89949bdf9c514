"""The filters of the search tools: speakers and conversations.

Each tool defines its own default scope; docs/adr/0038-default-scope-per-tool.md says why.
"""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from convmemory.conversations.filters import Filters, filters_of
from convmemory.tools.definition import Moment, Optional, Question, Text, ToolInput
from search.document_search import TURNS_ALONE

ScopeName = Literal["user", "assistant", "thinking", "tool"]


def _as_list(value: Any) -> Any:
    """Accept `user,thinking`, as the API and the command do, because models write that too."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


Scope = Annotated[list[ScopeName], BeforeValidator(_as_list), Field(description="whose words to search")]
SAID: list[ScopeName] = ["user", "assistant"]
SAID_AND_THOUGHT: list[ScopeName] = ["user", "assistant", "thinking"]

Agent = Annotated[Text, Field(description="exact name")]
Project = Annotated[Text, Field(description="exact name")]
After = Annotated[Moment | Optional, Field(description="said since")]
Before = Annotated[Moment | Optional, Field(description="said until")]


class SearchInput(ToolInput):
    """A question in plain text, and the filters of its search."""

    query: Annotated[Question, Field(description="a full question")]
    scope: Scope = SAID
    agent: Agent = ""
    project: Project = ""
    after: After = None
    before: Before = None

    @property
    def kinds(self) -> frozenset[str]:
        """Return the scope, or the tool's default if it is empty."""
        return frozenset(self.scope or type(self).model_fields["scope"].default)

    @property
    def filters(self) -> Filters:
        """Raises: InvalidInput if the dates are the wrong way round."""
        return filters_of(self.__dict__, kinds=TURNS_ALONE)
