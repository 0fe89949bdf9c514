from django.apps import AppConfig


class ContextConfig(AppConfig):
    name = "convmemory.context"
    label = "context"
    default_auto_field = "django.db.models.BigAutoField"
