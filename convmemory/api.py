"""The HTTP API under /api/v1: mounts the routers of the apps."""

from ninja import NinjaAPI, Swagger

from convmemory import problems
from convmemory.accounts.api import router as spaces
from convmemory.accounts.authentication import AUTHENTICATION
from convmemory.chat.api import router as chat
from convmemory.conversations.api import router as conversations
from convmemory.conversations.importing.api import router as imports
from convmemory.documents.api import router as documents
from convmemory.health_api import router as health
from convmemory.moving.api import router as moving
from convmemory.problems import refuse_unknown_parameters
from convmemory.retention.api import router as retention
from convmemory.tools.api import router as tools
from memory.api import router as memory
from search.api import router as search
from summaries.api import router as summaries

api = NinjaAPI(
    title="convmemory",
    version="1",
    description="Store conversations, find the turn in which something was said.",
    auth=AUTHENTICATION,
    docs=Swagger(settings={"persistAuthorization": False}),
    urls_namespace="api",
)
problems.register(api)
for router in (
    search, conversations, documents, retention, memory, summaries, moving, imports, spaces, tools, chat, health,
):  # fmt: skip
    refuse_unknown_parameters(router)
    api.add_router("", router)
