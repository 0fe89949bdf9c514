"""URLs of the pages about one's account data, and of the metrics."""

from django.urls import path

from convmemory.ops import views
from convmemory.ops import views as data_views

urlpatterns = [
    path("settings/account/delete", views.delete_account, name="delete-account"),
    path("settings/data", data_views.data, name="data"),
    path("settings/data/archives", data_views.make_archive, name="make-archive"),
    path("settings/data/archives/<int:own_archive_id>", data_views.fetch_archive, name="fetch-archive"),
    path("settings/data/archives/<int:own_archive_id>/remove", data_views.remove_archive, name="remove-archive"),
    path("metrics", views.metrics, name="metrics"),
]
