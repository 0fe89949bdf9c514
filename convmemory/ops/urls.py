"""Addresses of the life cycle of an account."""

from django.urls import path

from convmemory.ops import views

urlpatterns = [
    path("settings/account/delete", views.delete_account, name="delete-account"),
]
