"""Addresses of the search page and its parts."""

from django.urls import path

from search import views

urlpatterns = [
    path("", views.search_page, name="home"),
    path("search", views.search_page, name="search"),
    path("search/filters", views.filter_choices, name="filter-choices"),
    path("search/hits-in", views.hits_in, name="hits-in"),
    path("index/progress", views.index_progress, name="index-progress"),
]
