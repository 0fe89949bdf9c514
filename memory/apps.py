from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory.records import on_elements_embedded
        from search.index_signals import elements_embedded

        elements_embedded.connect(on_elements_embedded, dispatch_uid="memory.records")
