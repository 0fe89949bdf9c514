"""URLs of the page about MCP; `convmemory/asgi.py` mounts the server itself."""

from django.urls import path

from convmemory.mcp_server import views

urlpatterns = [
    path("settings/connect", views.connect, name="connect"),
]
