from django.apps import AppConfig


class SearchConfig(AppConfig):
    name = "search"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from convmemory.conversations.models import Conversation
        from convmemory.conversations.signals import (
            conversation_changed,
            conversation_deleting,
            conversation_restored,
            conversation_trashed,
            conversations_counted,
            projects_renamed,
        )
        from convmemory.documents.models import Document
        from convmemory.documents.signals import document_changed, document_restored, document_trashed, sections_moved
        from search.adapters import conversations, decisions, documents
        from search.sources import register

        register(conversations.ConversationAdapter())
        conversation_changed.connect(conversations.on_conversation_changed, dispatch_uid="search.sources")
        conversations_counted.connect(decisions.on_conversations_counted, dispatch_uid="search.decisions")
        projects_renamed.connect(conversations.on_projects_renamed, dispatch_uid="search.projects")
        conversation_deleting.connect(conversations.on_conversation_deleting, dispatch_uid="search.deleting")
        post_delete.connect(conversations.on_conversation_deleted, Conversation, dispatch_uid="search.deleted")
        conversation_trashed.connect(conversations.on_conversation_trashed, dispatch_uid="search.trashed")
        conversation_restored.connect(conversations.on_conversation_restored, dispatch_uid="search.restored")

        register(documents.DocumentAdapter())
        sections_moved.connect(documents.on_sections_moved, dispatch_uid="search.moved-sections")
        document_changed.connect(documents.on_document_changed, dispatch_uid="search.document-sources")
        post_delete.connect(documents.on_document_deleted, Document, dispatch_uid="search.deleted-documents")
        document_trashed.connect(documents.on_document_trashed, dispatch_uid="search.trashed-documents")
        document_restored.connect(documents.on_document_restored, dispatch_uid="search.restored-documents")
