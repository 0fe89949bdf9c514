"""The settings of documents as frozen values."""

from dataclasses import dataclass
from pathlib import Path

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class DocumentOptions(FromSettings):
    """Where the files of documents are stored, how many there may be, and the limits for reading one."""

    media_root: Path
    max_document_mb: int
    max_library_mb: int
    max_page_pictures_mb: int
    max_document_pages: int
    max_document_chars: int
    document_timeout_s: int
    document_stall_s: int
    document_memory_mb: int
    document_ocr: bool
    rag_enabled: bool
