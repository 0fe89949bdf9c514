from django.apps import AppConfig


class MemoryConfig(AppConfig):
    name = "memory"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from memory.receivers import on_messages_embedded, on_turns_compared
        from search.index_signals import messages_embedded, turns_compared

        messages_embedded.connect(on_messages_embedded, dispatch_uid="memory.records")
        turns_compared.connect(on_turns_compared, dispatch_uid="memory.positions")
