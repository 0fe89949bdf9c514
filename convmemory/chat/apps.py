from django.apps import AppConfig


class ChatConfig(AppConfig):
    name = "convmemory.chat"
    label = "chat"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from convmemory.chat.pages import on_conversation_shown, on_response_abandoned
        from convmemory.conversations.signals import conversation_shown, response_abandoned

        conversation_shown.connect(on_conversation_shown, dispatch_uid="chat.composer")
        response_abandoned.connect(on_response_abandoned, dispatch_uid="chat.take_over")
