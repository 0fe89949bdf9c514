"""The address of the page that moves and copies."""

from django.urls import path

from convmemory.moving import views

urlpatterns = [path("move", views.move, name="move")]
