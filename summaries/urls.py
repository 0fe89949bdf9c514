"""URLs of the summary pages."""

from django.urls import path

from summaries import views

urlpatterns = [
    path("conversations/<int:conversation_id>/summaries", views.summaries, name="summaries"),
    path("conversations/<int:conversation_id>/summaries/<int:summary_id>", views.summary, name="summary"),
    path(
        "conversations/<int:conversation_id>/summaries/<int:summary_id>/regenerate",
        views.regenerate,
        name="regenerate-summary",
    ),
    path("conversations/<int:conversation_id>/summaries/<int:summary_id>/delete", views.delete, name="delete-summary"),
]
