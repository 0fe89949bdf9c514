from django.apps import AppConfig


class McpServerConfig(AppConfig):
    name = "convmemory.mcp_server"
    label = "mcp_server"
    default_auto_field = "django.db.models.BigAutoField"
