"""Addresses of the life cycle of an account, and of the metrics."""

from django.urls import path

from convmemory.ops import views

urlpatterns = [
    path("settings/account/delete", views.delete_account, name="delete-account"),
    path("metrics", views.metrics, name="metrics"),
]
