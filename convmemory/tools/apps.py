from django.apps import AppConfig


class ToolsConfig(AppConfig):
    name = "convmemory.tools"
    label = "tools"
    default_auto_field = "django.db.models.BigAutoField"
