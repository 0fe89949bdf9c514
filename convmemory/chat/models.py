"""Agents, the replies they give, and the points at which captured conversations can be continued.

`agents.py`, `replies.py` and `capture.py` write the rows.
"""

from django.db import models
from django.db.models import Q

from convmemory.conversations.models import Conversation, Message
from convmemory.documents.models import Document


class Agent(models.Model):
    """A chat partner: a model behind an endpoint, with a system prompt, tools and a context pipeline.

    An empty `base_url` means the server's own endpoint, with its key; an empty `model` its model. A null number means
    the endpoint's or the server's default.
    """

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="agents"
    )
    name = models.CharField(max_length=100)
    system_prompt = models.TextField(blank=True, default="")
    base_url = models.CharField(max_length=500, blank=True, default="")
    api_key_encrypted = models.TextField(blank=True, default="", editable=False)
    model = models.CharField(max_length=200, blank=True, default="")
    context_window = models.PositiveIntegerField(null=True, blank=True, help_text="Tokens.")
    reply_tokens = models.PositiveIntegerField(null=True, blank=True, help_text="The longest reply, in tokens.")
    temperature = models.FloatField(null=True, blank=True)
    tools = models.JSONField(default=list, blank=True, help_text="Names of the tools that the model may call.")
    context_strategies = models.JSONField(default=list, blank=True, help_text="Names, in the order they run.")
    switched_off_at = models.DateTimeField(null=True, blank=True, help_text="By an administrator; null: in use.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    key_was_dropped = False
    """Whether the last change deleted the key because the address names another server; not stored."""

    class Meta:
        permissions = [("use_private_address", "Can have agents ask servers of this machine and of private networks")]
        constraints = [
            models.UniqueConstraint(fields=["archive", "name"], name="agent_name_unique"),
        ]

    def __str__(self) -> str:
        return f"agent {self.pk}"  # without the name: the admin prints this for staff, who may not read content

    @property
    def has_key(self) -> bool:
        return bool(self.api_key_encrypted)

    @property
    def is_switched_off(self) -> bool:
        return self.switched_off_at is not None


class AgentDocument(models.Model):
    """A document attached to an agent, searched in each conversation that the agent answers."""

    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    agent = models.ForeignKey(Agent, on_delete=models.CASCADE, related_name="+", db_index=False)
    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["agent", "document", "archive"], name="agent_document_unique")]
        indexes = [models.Index(fields=["archive", "agent"], name="agent_document_owner")]

    def __str__(self) -> str:
        return f"document {self.document_id} of agent {self.agent_id}"


class Reply(models.Model):
    """One answer of a model, from the question to its end; of proxied answers, only incomplete ones.

    While it runs, `partial` contains the messages received so far (`replies.draft_to_json`), so that a dead process
    loses at most one flush interval. At most one reply runs in a conversation.
    """

    class Status(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        STOPPED = "stopped", "stopped by its owner"
        INTERRUPTED = "interrupted", "interrupted before its end"
        FAILED = "failed"

    archive = models.ForeignKey("accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+")
    conversation = models.ForeignKey(Conversation, on_delete=models.CASCADE, related_name="replies")
    agent = models.ForeignKey(Agent, on_delete=models.SET_NULL, null=True, blank=True, related_name="+")
    question = models.ForeignKey(Message, on_delete=models.SET_NULL, null=True, related_name="+")
    follows = models.BigIntegerField(
        null=True,
        blank=True,
        help_text="The id of the message before the question; 0: it begins the conversation. Null: not known yet.",
    )
    model = models.CharField(max_length=200, blank=True, default="")
    status = models.CharField(max_length=12, choices=Status, default=Status.RUNNING)
    stop_requested = models.BooleanField(default=False)
    partial = models.JSONField(default=list)
    context = models.JSONField(default=dict, help_text="What the context pipeline did; empty where it did nothing.")
    error = models.TextField(blank=True, default="")
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "replies"
        constraints = [
            models.UniqueConstraint(
                fields=["archive", "conversation"], condition=Q(status="running"), name="reply_running_once"
            ),
            models.CheckConstraint(
                condition=Q(status__in=["running", "done", "stopped", "interrupted", "failed"]), name="reply_status"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.status} reply {self.pk} in conversation {self.conversation_id}"


class CapturedHistory(models.Model):
    """The state of a conversation recorded by the proxy: the hash of all its messages so far.

    `recent_hashes` are the hashes after each of the last messages, 32 bytes each: an exchange that is recorded after
    its own follow-up is found there. `response_id` is the last one of the Responses API.
    """

    conversation = models.OneToOneField(
        Conversation, on_delete=models.CASCADE, primary_key=True, related_name="captured_history"
    )
    archive = models.ForeignKey(
        "accounts.Archive", db_column="owner_id", on_delete=models.CASCADE, related_name="+", db_index=False
    )
    history_hash = models.BinaryField(max_length=32)
    recent_hashes = models.BinaryField(default=b"")
    response_id = models.CharField(max_length=200, blank=True, default="")
    recorded_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "captured histories"
        indexes = [
            models.Index(fields=["archive", "history_hash"], name="captured_history"),
            models.Index(fields=["archive", "recorded_at"], name="captured_history_recent"),
            models.Index(fields=["archive", "response_id"], name="captured_response", condition=~Q(response_id="")),
        ]

    def __str__(self) -> str:
        return f"history of conversation {self.conversation_id}"
