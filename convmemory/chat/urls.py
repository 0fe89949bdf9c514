"""URLs of the chat pages and of the capture proxy."""

from django.urls import path

from convmemory.chat import proxy, views

urlpatterns = [
    *(path(f"v1/{route.path}", proxy.proxy, {"path": route.path}) for route in proxy.ROUTES if "{" not in route.path),
    path("v1/<path:path>", proxy.proxy),
    path("chat", views.new_chat, name="new-chat"),
    path("chat/render", views.render_text, name="render-text"),
    path("chat/attach", views.attach_files, name="change-attached-files"),
    path("chat/send", views.send, name="start-chat"),
    path("conversations/<int:conversation_id>/send", views.send, name="send"),
    path(
        "conversations/<int:conversation_id>/questions/<int:message_id>/edit", views.edit_question, name="edit-question"
    ),
    path("conversations/<int:conversation_id>/version", views.choose_version, name="change-version"),
    path("conversations/<int:conversation_id>/stop", views.stop, name="stop-reply"),
    path("conversations/<int:conversation_id>/running", views.running, name="running-reply"),
    path("conversations/<int:conversation_id>/replies/<int:reply_id>", views.show_reply, name="reply"),
    path("agents", views.list_agents, name="agents"),
    path("agents/new", views.edit_agent, name="new-agent"),
    path("agents/check", views.check_endpoint, name="check-new-endpoint"),
    path("agents/<int:agent_id>/check", views.check_endpoint, name="check-endpoint"),
    path("agents/<int:agent_id>", views.edit_agent, name="agent"),
    path("agents/<int:agent_id>/documents", views.documents_of_agent, name="agent-documents"),
    path("agents/<int:agent_id>/delete", views.delete_agent, name="delete-agent"),
]
