"""URLs of the search page and its parts."""

from django.urls import path

from search import outline_views, views

urlpatterns = [
    path("", views.search_page, name="home"),
    path("search", views.search_page, name="search"),
    path("search/filters", views.filter_choices, name="filter-choices"),
    path("search/keep", views.keep_search, name="keep-search"),
    path("search/saved", views.saved_searches, name="saved-searches"),
    path("search/<int:search_id>/drop", views.drop_search, name="drop-search"),
    path("search/preview/conversations/<int:conversation_id>", views.preview_turn, name="preview-turn"),
    path("search/preview/documents/<int:document_id>", views.preview_section, name="preview-section"),
    path("palette", views.palette, name="palette"),
    path("search/hits-in", views.hits_in, name="hits-in"),
    path("conversations/<int:conversation_id>/outline", outline_views.outline, name="outline"),
    path("index/progress", views.index_progress, name="index-progress"),
]
