"""Addresses of the conversation pages and of the import page."""

from django.urls import path

from convmemory.conversations.importing import views as import_views
from convmemory.conversations.pages import browsing_views, file_views, sharing_views, views
from convmemory.conversations.pages import views as event_views
from convmemory.conversations.pages import views as message_views

urlpatterns = [
    path("library", browsing_views.library, name="library"),
    path("files", file_views.files, name="files"),
    path("files/one", file_views.file, name="file"),
    path("conversations/<int:conversation_id>/files", file_views.files, name="conversation-files"),
    path("conversations/<int:conversation_id>/files/one", file_views.file, name="conversation-file"),
    path("statistics", browsing_views.statistics, name="statistics"),
    path("library/project", browsing_views.rename_project, name="rename-project"),
    path("library/folder", browsing_views.keep_apart, name="keep-apart"),
    path("library/change", browsing_views.change, name="change-library"),
    path("conversations/<int:conversation_id>", views.conversation, name="conversation"),
    path("conversations/<int:conversation_id>/messages/<int:position>/parts/<int:index>", views.part, name="part"),
    path(
        "conversations/<int:conversation_id>/messages/<int:position>/parts/<int:index>/picture",
        message_views.picture,
        name="picture",
    ),
    path("conversations/<int:conversation_id>/messages/<int:position>/text", message_views.text, name="message-text"),
    path("conversations/<int:conversation_id>/star", browsing_views.star, name="star-conversation"),
    path("conversations/<int:conversation_id>/pin", browsing_views.pin, name="pin-conversation"),
    path("conversations/<int:conversation_id>/tags", browsing_views.change_tags, name="tag-conversation"),
    path("conversations/<int:conversation_id>/turns/<int:turn>/mark", views.mark_turn, name="mark-turn"),
    path("conversations/<int:conversation_id>/events", event_views.events, name="events"),
    path("conversations/<int:conversation_id>/rename", views.rename, name="rename-conversation"),
    path("conversations/<int:conversation_id>/archive", views.archive, name="archive-conversation"),
    path("conversations/<int:conversation_id>/delete", views.delete, name="delete-conversation"),
    path("conversations/<int:conversation_id>/keys", views.hidden_keys, name="hidden-keys"),
    path("conversations/<int:conversation_id>/article", sharing_views.article, name="article"),
    path("conversations/<int:conversation_id>/share", sharing_views.share, name="share-conversation"),
    path("settings/links", sharing_views.share_links, name="share-links"),
    path("settings/links/<int:link_id>/revoke", sharing_views.revoke, name="revoke-share-link"),
    path("shared/<str:token>", sharing_views.shared, name="shared"),
    path("import", import_views.import_files, name="import"),
    path("import/<int:import_id>", import_views.one_import, name="one-import"),
    path("import/<int:import_id>/mapping", import_views.map_import, name="make-mapped-import"),
    path("import/<int:import_id>/format", import_views.name_format, name="make-named-import"),
    path("import/<int:import_id>/undo", import_views.undo_import, name="undo-import"),
]
