"""URLs of the pages about MCP; `convmemory/asgi.py` mounts the server itself."""

from django.urls import path

from convmemory.mcp_server import consent, views

urlpatterns = [
    path("client.pyz", views.client, name="client"),
    path("settings/connect", views.connect, name="connect"),
    path("authorize", consent.authorize, name="authorize"),
]
