from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "convmemory.ops"
    label = "ops"
    default_auto_field = "django.db.models.BigAutoField"
