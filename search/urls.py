"""Addresses of the search page and its parts."""

from django.urls import path

from search import outline_views, views

urlpatterns = [
    path("", views.search_page, name="home"),
    path("search", views.search_page, name="search"),
    path("search/filters", views.filter_choices, name="filter-choices"),
    path("search/hits-in", views.hits_in, name="hits-in"),
    path("conversations/<int:conversation_id>/outline", outline_views.outline, name="outline"),
    path("index/progress", views.index_progress, name="index-progress"),
]
