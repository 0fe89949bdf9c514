"""URLs of the tools' pages."""

from django.urls import path

from convmemory.tools import views

urlpatterns = [
    path("recall", views.recall_page, name="recall"),
]
