"""URLs of the trash."""

from django.urls import path

from convmemory.retention import views

urlpatterns = [
    path("trash", views.trash_page, name="trash"),
    path("trash/rules", views.rules_page, name="retention-rules"),
    path("trash/change", views.change, name="change-trash"),
]
