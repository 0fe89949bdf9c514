"""The settings of imports, as frozen values."""

from dataclasses import dataclass
from pathlib import Path

from convmemory.core.options import FromSettings


@dataclass(frozen=True, slots=True)
class ImportOptions(FromSettings):
    """The folder of waiting uploads, and the limits of an import."""

    import_folder: Path
    import_memory_mb: int
    import_timeout_s: int
    max_upload_mb: int
    max_kept_uploads_mb: int
    media_root: Path
    data_upload_max_number_files: int


@dataclass(frozen=True, slots=True)
class StorageOptions(FromSettings):
    """The limit of a person's stored bytes; 0 is unlimited."""

    max_stored_mb_per_user: int


@dataclass(frozen=True, slots=True)
class HidingOptions(FromSettings):
    """The switch for hiding keys in new texts."""

    hide_keys: bool
