"""Addresses of the conversation pages and of the import page."""

from django.urls import path

from convmemory.conversations import event_views, import_views, views

urlpatterns = [
    path("conversations/<int:conversation_id>", views.conversation, name="conversation"),
    path("conversations/<int:conversation_id>/messages/<int:position>/parts/<int:index>", views.part, name="part"),
    path("conversations/<int:conversation_id>/events", event_views.events, name="events"),
    path("conversations/<int:conversation_id>/rename", views.rename, name="rename-conversation"),
    path("conversations/<int:conversation_id>/archive", views.archive, name="archive-conversation"),
    path("conversations/<int:conversation_id>/delete", views.delete, name="delete-conversation"),
    path("conversations/<int:conversation_id>/keys", views.hidden_keys, name="hidden-keys"),
    path("import", import_views.import_files, name="import"),
    path("import/<int:import_id>", import_views.one_import, name="one-import"),
    path("import/<int:import_id>/undo", import_views.undo_import, name="undo-import"),
]
