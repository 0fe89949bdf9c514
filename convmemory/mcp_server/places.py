"""The paths of MCP and of its OAuth, without the SDK, which takes long to load."""

from urllib.parse import urlsplit

from convmemory.core.conf import LOOPBACK
from convmemory.core.config import config
from convmemory.core.program import COMMAND

AUTHORIZE = "/authorize"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
OAUTH = frozenset({"/token", "/register", "/revoke"})
OFF = (
    "This server takes no OAuth here: send `Authorization: Bearer KEY` with a key made by "
    f"`{COMMAND} create_api_key USER` or on the page API keys. (OAuth needs MCP_OAUTH, and an address that begins with "
    "https:// or is of this machine.)"
)


def is_oauth(path: str) -> bool:
    """Return whether a program of OAuth answers at the path; the consent page is not among these."""
    return path in OAUTH or path.startswith("/.well-known/")


def can_authorize(site: str) -> bool:
    """Return whether OAuth is on, and the address is one that programs accept: HTTPS, or this machine."""
    parts = urlsplit(site)
    return config.mcp_oauth and (parts.scheme == "https" or (parts.hostname or "") in LOOPBACK)
