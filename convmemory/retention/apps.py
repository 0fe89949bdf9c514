from django.apps import AppConfig


class RetentionConfig(AppConfig):
    name = "convmemory.retention"
    label = "retention"
    default_auto_field = "django.db.models.BigAutoField"
