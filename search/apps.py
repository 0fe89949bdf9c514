from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "search"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from convmemory.conversations.models import Conversation
        from convmemory.conversations.signals import conversation_changed, conversation_deleting, turns_changed
        from search.adapters import conversations
        from search.sources import register

        register(conversations.ConversationAdapter())
        conversation_changed.connect(conversations.on_conversation_changed, dispatch_uid="search.sources")
        turns_changed.connect(conversations.on_turns_changed, dispatch_uid="search.index")
        conversation_deleting.connect(conversations.on_conversation_deleting, dispatch_uid="search.deleting")
        post_delete.connect(conversations.on_conversation_deleted, Conversation, dispatch_uid="search.deleted")
