from django.apps import AppConfig


class CoreConfig(AppConfig):
    name = "convmemory.core"
    label = "core"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.core import checks, safe_queue  # noqa: F401 (importing the checks registers them)

        safe_queue.install()
