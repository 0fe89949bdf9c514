from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "convmemory.chat"
    label = "chat"
    default_auto_field = "django.db.models.BigAutoField"
