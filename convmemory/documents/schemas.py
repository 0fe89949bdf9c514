"""Requests and responses of the document routes."""

from datetime import datetime

from ninja import Field, Schema

from convmemory.conversations.schemas import SPACE, SpaceOut


class PartOut(Schema):
    part: str = Field(description="page, picture, footnote, …")
    read: int
    total: int


class DocumentOut(Schema):
    id: int
    name: str = Field(description="the name that the file came with")
    title: str
    format: str
    size: int = Field(description="bytes of the file")
    status: str = Field(description="uploaded, processing, ready or failed")
    failure: str = Field(
        description="encrypted, broken, no_text, empty, unknown, too_large, time, memory, interrupted or internal"
    )
    error: str = Field(description="why it could not be read, and what to do")
    notes: list[str] = Field(description="what was left out")
    coverage: list[PartOut] = Field(description="for each kind of part, how many were read of those in the file")
    page_count: int | None = Field(description="pages, slides or sheets")
    char_count: int = Field(description="characters of its text")
    section_count: int
    url: str = Field(alias="get_absolute_url")
    created_at: datetime
    updated_at: datetime


class ListedDocument(DocumentOut):
    space: SpaceOut | None = SPACE


class DocumentPage(Schema):
    results: list[ListedDocument]
    next_before_id: int | None = Field(description="pass it as `before_id` for older documents")


class AttachIn(Schema):
    document_ids: list[int] = Field(max_length=200)


class AttachedDocuments(Schema):
    results: list[DocumentOut]
