from django.apps import AppConfig


class DocumentsConfig(AppConfig):
    name = "convmemory.documents"
    label = "documents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.db.models.signals import post_delete

        from convmemory.documents.library import on_document_deleted
        from convmemory.documents.models import Document

        post_delete.connect(on_document_deleted, Document, dispatch_uid="documents.files")
