from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "search"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.conversations.signals import turns_changed
        from search.receivers import on_turns_changed

        turns_changed.connect(on_turns_changed, dispatch_uid="search.index")
