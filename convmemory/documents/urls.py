"""URLs of the library, of the viewer, and of a conversation's documents."""

from django.urls import path

from convmemory.documents import views

urlpatterns = [
    path("documents", views.library_page, name="documents"),
    path("documents/change", views.change, name="change-documents"),
    path("documents/of-import/<int:import_id>", views.add_import, name="add-import-to-documents"),
    path("documents/<int:document_id>", views.document, name="document"),
    path("documents/<int:document_id>/card", views.card, name="document-card"),
    path("documents/<int:document_id>/file", views.download, name="document-file"),
    path("documents/<int:document_id>/pages/<int:page>", views.sheet, name="document-page"),
    path("documents/<int:document_id>/pages/<int:page>.webp", views.picture, name="document-picture"),
    path("documents/<int:document_id>/retry", views.retry, name="retry-document"),
    path("documents/<int:document_id>/delete", views.delete, name="delete-document"),
    path("conversations/<int:conversation_id>/documents", views.attached, name="attached-documents"),
]
