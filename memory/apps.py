from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory.records import on_elements_embedded, on_items_compared
        from search.index_signals import elements_embedded, items_compared

        elements_embedded.connect(on_elements_embedded, dispatch_uid="memory.records")
        items_compared.connect(on_items_compared, dispatch_uid="memory.positions")
